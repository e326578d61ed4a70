// SPDX-License-Identifier: Apache-2.0
//
// Launching: range checks, a kernel's opt-ins, cuLaunchKernelEx, and the row launch_device.
#ifndef WEFT_DRIVER_LAUNCH_H_
#define WEFT_DRIVER_LAUNCH_H_

#include <weft/runtime_table.h>

#include "driver/devices/device_program.h"

namespace weft {

// Launches on `stream` in the current context; `is_home`: the kernel's function is valid there. Grids with a
// zero are a no-op; a failed launch is explained (launch_diagnosis.h). `parameters` has one pointer per
// kernel parameter; it is read before this returns. True, or false with an error.
bool launch_kernel(LoadedKernel* kernel, const Device& device, const weft_launch& launch,
                   cuda::CUstream stream, bool is_home, void** parameters, DriverError* error);

// The row of the runtime table: `kernel` is the index in the image's list of kernels.
int32_t launch_device(weft_call_frame* frame, int32_t kernel, const weft_launch* launch, void** parameters);

// The same with scratch memory, allocated before the kernel and freed after it.
int32_t launch_device_scratch(weft_call_frame* frame, int32_t kernel, const weft_launch* launch,
                              void** parameters, const weft_scratch* scratch, int64_t scratch_count);

// How many clusters of a kernel the frame's device holds at once, at least one; asks the driver once per
// device.
int32_t max_clusters(weft_call_frame* frame, int32_t kernel, const weft_cluster_shape* shape, int32_t* count);

// grid=(4, 1, 1), block=(128, 1, 1), shared_memory_bytes=0, stream=0x0, cluster=(2, 1, 1)
std::string describe_configuration(const weft_launch& launch, cuda::CUstream stream);

// x * y * z of the launch's cluster attribute; 0 without one.
int64_t cluster_blocks(const weft_launch& launch, uint32_t attribute);
bool is_cooperative(const weft_launch& launch);

}  // namespace weft

#endif  // WEFT_DRIVER_LAUNCH_H_
