// SPDX-License-Identifier: Apache-2.0
//
// Runs the threads of a block, each a coroutine, until all have exited.
//
// Threads run in the order of their number until they wait. A warp's collective is computed when its last
// lane arrives; a block barrier opens when every thread that has not exited has arrived. The scheduler
// notices when no thread can run, so a barrier that can never open is an error, not a hang. The order is
// fixed: two runs of a program do the same.
#ifndef WEFT_CPU_SCHEDULER_H_
#define WEFT_CPU_SCHEDULER_H_

#include <weft/cpu_cooperative.h>
#include <weft/runtime_table.h>

namespace weft {

// Rows of the runtime table.
//
// Bytes of scratch that `run_cooperative` needs for this launch: per block, or for the whole grid if the
// kernel has grid barriers.
int64_t cooperative_scratch_bytes(const weft_cooperative_kernel* kernel, const weft_launch* launch);
// Blocks [first, last); 0, or 1 with the FFI error of this thread set or another thread's failure seen.
int32_t run_cooperative(const weft_cooperative_kernel* kernel, const void* parameters,
                        weft_cpu_launch* launch, int64_t first, int64_t last, void* scratch);
// Queues a store of at most 16 bytes at `to`, in any block of the cluster, which reports to `word` there.
void st_async(const weft_cpu_block* block, void* to, void* word, const void* data, int32_t bytes);
// Queues a load of a box to `shared`, in any block of the cluster, which reports to `word` there.
void tma_send(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,
              void* shared, void* word);

}  // namespace weft

#endif  // WEFT_CPU_SCHEDULER_H_
