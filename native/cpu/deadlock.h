// SPDX-License-Identifier: Apache-2.0
//
// Errors of threads that wait for each other forever: the block, and which threads wait where.
#ifndef WEFT_CPU_DEADLOCK_H_
#define WEFT_CPU_DEADLOCK_H_

#include <weft/cpu_cooperative.h>
#include <weft/runtime_table.h>

#include <cstdint>

namespace weft {

// The threads of one block as an error describes them.
struct BlockState {
  const weft_cooperative_kernel* kernel;
  const weft_cpu_launch* launch;
  int64_t block;  // linear index
  const char* slots;
  int64_t stride;  // bytes from one thread's slot to the next
  int32_t threads;
};

// Sets the FFI error, of kind RuntimeError: `what`, the kernel, then for each block a line per run of threads
// that wait at the same place. Returns 1.
int32_t raise_deadlock(const BlockState* blocks, int32_t count, const char* what);
// The same for a block of a cluster whose shared memory was written before it began, or by another one after
// it exited.
int32_t raise_overwritten(const BlockState& owner, const BlockState* writer);

}  // namespace weft

#endif  // WEFT_CPU_DEADLOCK_H_
