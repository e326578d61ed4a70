// SPDX-License-Identifier: Apache-2.0
//
// The row launch_memory: what a launch of a kernel with a profiler records into. Whoever collects launches
// sets one Python callable for the process; without one, launches have no such memory and nothing is asked.
#ifndef WEFT_RUNTIME_LAUNCH_MEMORY_H_
#define WEFT_RUNTIME_LAUNCH_MEMORY_H_

#include <weft/runtime_table.h>

namespace weft {

// Asks the callable for 8-byte words that this launch of `kernel` by the host function `function` may write.
// `words` holds how many the launch needs, 0 where only the run can tell, and takes how many it got. NULL and
// 0 where nobody collects. -1 with the FFI error set where the callable raised. Any thread, with or
// without the GIL.
int32_t launch_memory(weft_call_frame* frame, void* stream, const char* function, const char* kernel,
                      void** memory, int64_t* words);

}  // namespace weft

#endif  // WEFT_RUNTIME_LAUNCH_MEMORY_H_
