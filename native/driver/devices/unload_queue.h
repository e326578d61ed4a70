// SPDX-License-Identifier: Apache-2.0
//
// Libraries, modules and memory that nobody uses any more, waiting for a safe point to be given back. Putting
// one here needs no GIL, takes no lock and calls no driver, so a garbage collector or a foreign thread may.
#ifndef WEFT_DRIVER_UNLOAD_QUEUE_H_
#define WEFT_DRIVER_UNLOAD_QUEUE_H_

#include "driver/library/cuda_abi.h"

namespace weft {

// Takes ownership of the handles; either may be NULL. `context` is the one that a module was loaded in;
// `name` is interned, for the log. In a forked child and when memory runs out the handles are dropped: the
// process's end frees them.
void queue_unload(cuda::CUlibrary library, cuda::CUmodule module, cuda::CUcontext context, const char* name);

// The same for memory of cuMemAlloc, allocated in `context`.
void queue_free(cuda::CUdeviceptr memory, cuda::CUcontext context);

// Gives back what is queued. Safe points: before a load or an allocation, in synchronize, and when asked for.
// Does nothing in a forked child. Returns how many were unloaded; failures are told on stderr with the name.
int drain_unload_queue();

// How many wait.
int unload_queue_length();

}  // namespace weft

#endif  // WEFT_DRIVER_UNLOAD_QUEUE_H_
