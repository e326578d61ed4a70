// SPDX-License-Identifier: Apache-2.0
//
// Unused libraries, modules and memory, waiting for a safe point to be freed. Queueing needs no GIL, takes no
// lock and makes no driver call, so a garbage collector or a foreign thread may do it.
#ifndef WEFT_DRIVER_UNLOAD_QUEUE_H_
#define WEFT_DRIVER_UNLOAD_QUEUE_H_

#include "driver/library/cuda_abi.h"

namespace weft {

// Takes ownership of the handles; either may be NULL. `context` is the one a module was loaded in;
// `name` is interned, for the log. In a forked child and when memory runs out the handles are dropped: the
// process's end frees them.
void queue_unload(cuda::CUlibrary library, cuda::CUmodule module, cuda::CUcontext context, const char* name);

// The same for memory of cuMemAlloc, allocated in `context`.
void queue_free(cuda::CUdeviceptr memory, cuda::CUcontext context);

// The same for memory of cuMemHostAlloc, which belongs to no context.
void queue_free_host(void* memory);

// Frees the queued images. Safe points: before a load or an allocation, in synchronize, and on request. Does
// nothing in a forked child. Returns how many were unloaded; failures go to stderr with the name.
int drain_unload_queue();

// The number of waiting handles.
int unload_queue_length();

}  // namespace weft

#endif  // WEFT_DRIVER_UNLOAD_QUEUE_H_
