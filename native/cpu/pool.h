// SPDX-License-Identifier: Apache-2.0
//
// Runs the blocks of one grid at a time, on as many threads as pay.
//
// A grid starts in the calling thread, and its first blocks show how long the others will take. Grids too
// small to share stay there, as do those that find the workers busy.
#ifndef WEFT_CPU_POOL_H_
#define WEFT_CPU_POOL_H_

#include <weft/runtime_table.h>

#include <cstdint>

namespace weft {

constexpr int32_t kMostCpuThreads = 1024;

// One grid: its kernel, number of blocks, and the arguments of every block. Borrowed for the run.
struct CpuGrid {
  weft_cpu_kernel kernel;
  const void* parameters;
  weft_cpu_launch* launch;
  int64_t blocks;
  int64_t scratch_bytes;  // per worker, 64-byte aligned, not cleared
  bool whole;             // all blocks in one call of the kernel, in the calling thread
};

// Runs all blocks and returns 0; or -1 with the FFI error of this thread set, as soon as a block has failed
// or a signal handler has raised. Of several failed blocks the one with the lowest index is reported. Throws
// std::bad_alloc when there is no memory for the caller's scratch.
int32_t run_grid(const CpuGrid& grid);

// The number of threads that share a grid, the caller included; 0 means one per usable CPU. Applies from the
// next shared grid on; must not be called from a kernel.
void set_cpu_threads(int32_t count);

// What `weft.multiprocessors()` is on the CPU, more than 1 by default, so that grids of fewer blocks than
// tiles are tried there; 0 sets the default.
void set_cpu_multiprocessors(int32_t count);
int32_t cpu_multiprocessors();
// What `kernel.max_clusters(n)` is on the CPU, for every n; 0 sets the default, more than 1.
void set_cpu_max_clusters(int32_t count);
int32_t cpu_max_clusters();
int32_t cpu_threads();

// Counts since the process began, for tests and diagnosis.
struct PoolCounts {
  int64_t inline_grids;
  int64_t shared_grids;
  int64_t workers;
};
PoolCounts pool_counts();

// Rows of the runtime table.
//
// Called by kernels after some work: nonzero tells the kernel to stop, because another block has failed or a
// signal handler has raised.
int32_t kernel_poll(weft_cpu_launch* launch);
// The number of the thread that runs the kernel: 0 is the caller.
int32_t worker_number();
// Nanoseconds of the machine's monotonic clock.
int64_t read_clock();

}  // namespace weft

#endif  // WEFT_CPU_POOL_H_
