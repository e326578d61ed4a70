// SPDX-License-Identifier: Apache-2.0
//
// The rows launch_cpu and kernel_fail of the runtime table.
#ifndef WEFT_CPU_LAUNCH_H_
#define WEFT_CPU_LAUNCH_H_

#include <weft/runtime_table.h>

namespace weft {

// Whether a grid has so few blocks that all of them may be alive at once.
inline bool are_few(int64_t x, int64_t y, int64_t z) {
  return x <= WEFT_MOST_CORESIDENT && y <= WEFT_MOST_CORESIDENT && z <= WEFT_MOST_CORESIDENT &&
         x * y * z <= WEFT_MOST_CORESIDENT;
}

// Runs every block before it returns, on the pool's threads where that pays. CUDA's size limits apply, so
// that programs stay portable; a grid with a zero is a no-op. 0, or -1 with the FFI error set. `parameters`
// is laid out as the kernel expects; `scratch_bytes` are allocated for the launch.
int32_t launch_cpu(weft_call_frame* frame, weft_cpu_kernel kernel, const weft_launch* launch,
                   const void* parameters, int64_t parameter_bytes, int64_t scratch_bytes);

// Called by a kernel whose assert failed: sets the FFI error with file, line, block and thread, marks the
// launch as failed and returns 1. `block` and `thread` are linear, x fastest.
int32_t kernel_fail(weft_cpu_launch* launch, const weft_failure_site* site, int64_t block, int64_t thread);

}  // namespace weft

#endif  // WEFT_CPU_LAUNCH_H_
