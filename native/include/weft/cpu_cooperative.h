// SPDX-License-Identifier: Apache-2.0
//
// The contract between the scheduler and generated CPU kernels whose threads wait for each other.
//
// Each thread is an LLVM coroutine (switched-resume) with a slot in front of its frame. Before it suspends it
// writes the reason into the slot; its resumer writes the answer there. A frame begins with the address of
// its resume function.
#ifndef WEFT_CPU_COOPERATIVE_H_
#define WEFT_CPU_COOPERATIVE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_cpu_launch weft_cpu_launch;

// Why a thread is not running.
enum weft_thread_state {
  WEFT_THREAD_READY = 0,       // it yielded in a loop that may wait for memory
  WEFT_THREAD_BARRIER = 1,     // block barrier
  WEFT_THREAD_COLLECTIVE = 2,  // warp barrier or collective
  WEFT_THREAD_GRID = 3,        // grid barrier
  WEFT_THREAD_EXITED = 4,
  WEFT_THREAD_FAILED = 5,       // an assertion: its error is recorded
  WEFT_THREAD_WARPGROUP = 6,    // an operation of a warpgroup's 128 threads
  WEFT_THREAD_MBARRIER = 7,     // a barrier in shared memory; `mask` holds the operation
  WEFT_THREAD_NAMED = 8,        // the barrier of number `value`, at which `lane` threads meet
  WEFT_THREAD_CLUSTER = 9,      // cluster barrier
  WEFT_THREAD_DEPENDENCY = 10,  // grid_dependency_wait; it continues at once unless its launch is held there
};

// Request of a thread in WEFT_THREAD_MBARRIER to the barrier whose word is at `value`, in the array at
// `result`.
enum weft_mbarrier_request {
  WEFT_MBARRIER_WAIT = 0,           // to continue when the phase of parity `lane` is complete
  WEFT_MBARRIER_TRY = 1,            // the same, but also otherwise: `result` becomes whether it is
  WEFT_MBARRIER_MANY_ARRIVALS = 2,  // nothing: it arrived once too often
  WEFT_MBARRIER_MANY_BYTES = 3,     // nothing: it expects more bytes than a GPU can
};

// Cooperative operations. Names are those of the simt dialect; the order is the ABI.
// clang-format off: it never ends with this list
#define WEFT_COOPERATIVE_OPERATIONS(ROW) \
  ROW(yield) ROW(barrier) ROW(barrier_count) ROW(barrier_and) ROW(barrier_or) ROW(grid_barrier) \
  ROW(warp_barrier) ROW(shuffle_up) ROW(shuffle_down) ROW(shuffle_xor) ROW(shuffle_idx) ROW(vote_ballot) \
  ROW(vote_any) ROW(vote_all) ROW(match_any) ROW(match_all) ROW(reduce_add) ROW(reduce_min) \
  ROW(reduce_max) ROW(reduce_umin) ROW(reduce_umax) ROW(reduce_and) ROW(reduce_or) ROW(reduce_xor) \
  ROW(mma) ROW(warpgroup_barrier) ROW(wgmma_mma) ROW(wgmma_wait) ROW(mbarrier_arrive) ROW(mbarrier_wait) \
  ROW(cluster_barrier) ROW(named_barrier_sync) ROW(named_barrier_arrive) ROW(elect_one) \
  ROW(setmaxnreg) ROW(grid_dependency_wait)
// clang-format on

enum weft_cooperative_operation {
#define WEFT_ROW(name) WEFT_COOPERATIVE_##name,
  WEFT_COOPERATIVE_OPERATIONS(WEFT_ROW)
#undef WEFT_ROW
      WEFT_COOPERATIVE_OPERATION_COUNT
};

// The type of a reduction's values: the width in bits, or one of these.
enum weft_value_type { WEFT_VALUE_F16 = 1, WEFT_VALUE_BF16 = 2, WEFT_VALUE_F32 = 3, WEFT_VALUE_F64 = 4 };

// One place in a kernel where threads suspend; constant data.
typedef struct weft_cooperative_site {
  const char* place;   // file:line, or an empty text
  int32_t operation;   // enum weft_cooperative_operation
  int32_t width;       // of shuffles: lanes of a group
  int32_t value_type;  // of reductions: 8, 16, 32, 64, or enum weft_value_type
  int32_t padding;
  const char* name;     // of the barrier that is meant, or an empty text
  const char* excerpt;  // as of weft_check_site where the sanitizer looks for such errors, else an empty text
  const char* places;
} weft_cooperative_site;

// One thread: 32 bytes, then its arrays too large for a stack, then its frame.
typedef struct weft_thread_slot {
  int32_t state;    // enum weft_thread_state
  int32_t site;     // index of the kernel's sites
  uint32_t mask;    // collectives: the lanes that take part
  int32_t lane;     // shuffles: distance, bit mask or lane
  uint64_t value;   // the thread's own value, zero-extended; a predicate is 0 or 1
  uint64_t result;  // its result, in the low bits
} weft_thread_slot;

// One block, while it runs.
typedef struct weft_cpu_block {
  int32_t index[3];
  int32_t budget;  // operations until the kernel asks whether to stop; kernels count it down and renew it
  int64_t linear;  // index in the grid, x fastest
  void* shared;    // launch->shared_memory_bytes, 1024-byte aligned, not cleared
  void* copies;    // weft::Copies of the block
  int64_t cluster_bytes;  // from a block's shared memory to that of the next rank in its cluster
} weft_cpu_block;

// A kernel; constant data.
typedef struct weft_cooperative_kernel {
  // Runs a thread until it first suspends. With a NULL frame it returns the frame's size.
  void* (*start)(const void* parameters, weft_cpu_launch* launch, const weft_cpu_block* block,
                 int32_t thread_x, int32_t thread_y, int32_t thread_z, weft_thread_slot* slot, void* frame);
  const weft_cooperative_site* sites;
  int32_t uses_collectives;  // warp barriers or collectives
  int32_t coresident;        // 1: all blocks of the grid run at once, in one call; 2: as WEFT_CORESIDENT_FEW
  int32_t thread_work;       // operations of a thread, except in loops that count their own
  int32_t local_bytes;       // of a thread's arrays too large for a stack; a multiple of 64
  int32_t cluster[3];        // blocks of a cluster, which run at once; 1 each without clusters
  int32_t maps_shared;       // threads access the shared memory of other blocks
} weft_cooperative_kernel;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // WEFT_CPU_COOPERATIVE_H_
