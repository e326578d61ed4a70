// SPDX-License-Identifier: Apache-2.0
//
// The row launch_memory: the memory that a launch of a kernel with a profiler records into. A capture sets
// one Python callable for the process; without it, launches have no such memory.
#ifndef WEFT_RUNTIME_LAUNCH_MEMORY_H_
#define WEFT_RUNTIME_LAUNCH_MEMORY_H_

#include <weft/runtime_table.h>

namespace weft {

// Asks the callable for 8-byte words that this launch of `kernel` by the host function `function` may write.
// `words`: on entry the number needed, 0 if only the run can tell; on return the number provided. NULL and 0
// without a capture. -1 with the FFI error set if the callable raised. Any thread, with or without the GIL.
int32_t launch_memory(weft_call_frame* frame, void* stream, const char* function, const char* kernel,
                      void** memory, int64_t* words);

}  // namespace weft

#endif  // WEFT_RUNTIME_LAUNCH_MEMORY_H_
