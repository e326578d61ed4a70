// SPDX-License-Identifier: Apache-2.0
//
// Programmatic dependent launches on the CPU: a launch that begins before the one before it has run.
//
// A launch whose successor is programmatic is held: it runs when the next one waits for it, or has ended. The
// next one is held in turn at grid_dependency_wait if its successor is programmatic too. So memory that is
// read without the wait is not written yet, and a missing wait gives a wrong result each time.
#ifndef WEFT_CPU_OVERLAP_H_
#define WEFT_CPU_OVERLAP_H_

#include <weft/cpu_cooperative.h>
#include <weft/runtime_table.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace weft {

struct Freed {
  void operator()(char* memory) const { std::free(memory); }
};
using OwnedMemory = std::unique_ptr<char, Freed>;
// Of at least this size; NULL if there is none.
OwnedMemory allocate_aligned(int64_t bytes, int64_t alignment);

// The blocks of a launch that wait for the launch before it, all alive. The scheduler's.
class HeldBlocks {
 public:
  HeldBlocks() = default;
  virtual ~HeldBlocks() = default;
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  // Runs them to their end; 0, or 1 with the error set.
  virtual int32_t finish() = 0;
};

// `weft_cpu_launch.overlap`; NULL for launches that overlap with none.
struct Overlap {
  bool is_held = true;  // threads stay at grid_dependency_wait
  std::unique_ptr<HeldBlocks> blocks;
};

inline Overlap* overlap_of(const weft_cpu_launch* launch) { return static_cast<Overlap*>(launch->overlap); }

// A launch that outlives its `launch_cpu`: it owns what its blocks need.
class HeldLaunch {
 public:
  // Copies the parameters; throws std::bad_alloc. `units` as in CpuGrid.
  HeldLaunch(weft_cpu_kernel kernel, const weft_cpu_launch& state, const void* parameters,
             int64_t parameter_bytes, int64_t units, int64_t scratch_bytes, bool whole);

  // Starts all blocks and runs them until they wait; 0, or -1 with the error set.
  int32_t begin();
  // The launch before it, which it never waits for: it runs after this one has ended.
  void run_ahead_of(std::unique_ptr<HeldLaunch> before) { before_ = std::move(before); }
  // Runs to the end, from the start or where they wait; 0, or -1 with the error set.
  int32_t finish();

 private:
  weft_cpu_kernel kernel_;
  weft_cpu_launch state_;
  Overlap overlap_;
  OwnedMemory parameters_;
  int64_t units_;
  int64_t scratch_bytes_;
  bool whole_;
  std::unique_ptr<HeldLaunch> before_;
};

// This thread's launch that is held; the caller owns it.
std::unique_ptr<HeldLaunch> take_held_launch();
void hold_launch(std::unique_ptr<HeldLaunch> launch);

}  // namespace weft

#endif  // WEFT_CPU_OVERLAP_H_
