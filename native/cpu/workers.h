// SPDX-License-Identifier: Apache-2.0
//
// The threads that share grids with their callers, and the handover of a grid.
//
// Each thread has a range of the grid's chunks. A worker's range shares a cache line with its order, so one
// line transfer hands a grid over. A thread without chunks takes half of another's. So the lowest unfinished
// block is always running or next in some thread, and a block that waits for an earlier one makes progress.
#ifndef WEFT_CPU_WORKERS_H_
#define WEFT_CPU_WORKERS_H_

#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>

#include "cpu/pool.h"

namespace weft {

class CpuCall;

// A running grid, with or without workers. Lives on the caller's stack.
struct Run {
  Run(const CpuGrid& grid, int64_t first, int64_t chunk) : grid(grid), first(first), chunk(chunk) {}

  const CpuGrid& grid;
  const int64_t first;  // the first block, and blocks per chunk
  const int64_t chunk;

  int64_t chunks() const { return (grid.blocks - first + chunk - 1) / chunk; }
  bool stopped() const { return __atomic_load_n(&grid.launch->failed, __ATOMIC_RELAXED) != 0; }
  void stop() const { __atomic_store_n(&grid.launch->failed, 1, __ATOMIC_RELAXED); }

  // The kernel has set this thread's FFI error; it is moved here, for the caller to raise.
  void record_failure(int64_t block);
  // After all have left: 0, or -1 with the FFI error of this thread set.
  int32_t finish(const CpuCall& call);

 private:
  std::atomic_flag error_lock_ = ATOMIC_FLAG_INIT;
  int64_t failed_block_ = INT64_MAX;
  TVMFFIObjectHandle error_ = nullptr;  // owned; of the lowest failed block
};

// Scratch memory for one grid on one thread: the thread's own, which grows and is reused by the next grid, or
// memory of its own while another grid of this thread uses that (a signal handler launched one).
class GridScratch {
 public:
  explicit GridScratch(int64_t bytes);
  ~GridScratch();
  GridScratch(const GridScratch&) = delete;
  GridScratch& operator=(const GridScratch&) = delete;

  void* memory() const { return memory_; }
  // Whether there was not enough memory.
  bool failed() const { return memory_ == nullptr && bytes_ > 0; }
  // Frees the memory at the end: a whole grid's may be far more than the next grid needs.
  void release_at_end() { release_ = true; }

 private:
  int64_t bytes_;
  void* memory_ = nullptr;
  bool own_ = false;
  bool release_ = false;
};

struct Pool;

// The process's pool, or nullptr where there is no memory for one. It is never freed, since its workers may
// use it until the process ends. A child after fork has a pool of its own, without workers at first.
Pool* the_pool();
// Workers started by this process's pool.
int32_t worker_count();
// The number of this thread among those that share grids; 0 for callers.
int32_t this_worker();

// The pool works on one grid at a time: false when it is taken.
bool begin_sharing(Pool& pool);
void end_sharing(Pool& pool);
// Whether `threads` - 1 workers are there and awake. The pool must be taken.
bool is_hot(const Pool& pool, int32_t threads);
// Whether this much work, in nanoseconds, is worth waking the workers for: by itself, or with the grids just
// before it, since more are likely to follow.
bool is_worth_waking(Pool& pool, double left, int64_t now);
// Runs all chunks with the caller and up to `threads` - 1 workers, and returns when all have left.
void share(Pool& pool, Run& run, void* scratch, int32_t threads, CpuCall& call);

}  // namespace weft

#endif  // WEFT_CPU_WORKERS_H_
