// SPDX-License-Identifier: Apache-2.0
//
// Explains why a launch failed: which limit, both numbers, what to change.
#ifndef WEFT_DRIVER_LAUNCH_DIAGNOSIS_H_
#define WEFT_DRIVER_LAUNCH_DIAGNOSIS_H_

#include "driver/launch/launch.h"

namespace weft {

// Fills the error with the driver's result, the explanation and the configuration; always returns false.
bool explain_failed_launch(cuda::CUresult result, const LoadedKernel& kernel, const Device& device,
                           const weft_launch& launch, const cuda::CUlaunchConfig& config, DriverError* error);

// The sentence for an error caused by an earlier launch, with the last launches; empty for others.
std::string explain_asynchronous_error(cuda::CUresult result);

}  // namespace weft

#endif  // WEFT_DRIVER_LAUNCH_DIAGNOSIS_H_
