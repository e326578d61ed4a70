// SPDX-License-Identifier: Apache-2.0
//
// The threads that share grids with their callers, and how a grid is handed to them and given back.
//
// Each thread has a range of the grid's chunks. A worker's range lies in one cache line with all that it must
// know to begin, so one transfer of a line hands a grid over. Who has no chunks left takes half of another
// thread's. So the lowest unfinished block is always one that somebody runs or will run next, and a block
// that waits for an earlier one never waits for nobody.
#ifndef WEFT_CPU_WORKERS_H_
#define WEFT_CPU_WORKERS_H_

#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>

#include "cpu/pool.h"

namespace weft {

class CpuCall;

// A grid while it is being worked on, by the caller alone or with workers. Lives on the caller's stack.
struct Run {
  Run(const CpuGrid& grid, int64_t first, int64_t chunk) : grid(grid), first(first), chunk(chunk) {}

  const CpuGrid& grid;
  const int64_t first;  // blocks from here on, in chunks of so many
  const int64_t chunk;

  int64_t chunks() const { return (grid.blocks - first + chunk - 1) / chunk; }
  bool stopped() const { return __atomic_load_n(&grid.launch->failed, __ATOMIC_RELAXED) != 0; }
  void stop() const { __atomic_store_n(&grid.launch->failed, 1, __ATOMIC_RELAXED); }

  // The kernel has set this thread's FFI error; it is moved here, for the caller to raise.
  void record_failure(int64_t block);
  // After everybody has left: 0, or -1 with the FFI error of this thread set.
  int32_t finish(const CpuCall& call);

 private:
  std::atomic_flag error_lock_ = ATOMIC_FLAG_INIT;
  int64_t failed_block_ = INT64_MAX;
  TVMFFIObjectHandle error_ = nullptr;  // owned; of the lowest failed block
};

// Scratch memory for one grid on one thread: the thread's own, which grows and is used again by the next
// grid, or, while a grid of this thread has that already (a signal's handler launched another), some of its
// own.
class Scratch {
 public:
  explicit Scratch(int64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* memory() const { return memory_; }
  // Whether there was not so much memory.
  bool failed() const { return memory_ == nullptr && bytes_ > 0; }
  // Gives the memory back at the end: that of a whole grid may be much more than the next grid needs.
  void release_at_end() { release_ = true; }

 private:
  int64_t bytes_;
  void* memory_ = nullptr;
  bool own_ = false;
  bool release_ = false;
};

struct Pool;

// The process's pool, or nullptr where there is no memory for one. It is never freed, since its workers may
// look at it until the process ends. A child after fork has a pool of its own, without workers at first.
Pool* the_pool();
// Workers started by this process's pool.
int32_t worker_count();
// The number of this thread among those that share grids; 0 for callers.
int32_t this_worker();

// The pool works on one grid at a time: false when it is taken.
bool begin_sharing(Pool& pool);
void end_sharing(Pool& pool);
// Whether `threads` - 1 workers are there and awake. These take the pool as begun.
bool is_hot(const Pool& pool, int32_t threads);
// Whether work that takes so long, in nanoseconds, is worth waking the workers for: by itself, or together
// with the grids that came just before it, since more are likely to follow.
bool is_worth_waking(Pool& pool, double left, int64_t now);
// Runs all chunks with the caller and up to `threads` - 1 workers, and returns when everybody has left.
void share(Pool& pool, Run& run, void* scratch, int32_t threads, CpuCall& call);

}  // namespace weft

#endif  // WEFT_CPU_WORKERS_H_
