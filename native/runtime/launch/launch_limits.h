// SPDX-License-Identifier: Apache-2.0
//
// The size limits of launches: CUDA's, kept by every target, so that a launch means the same on all of them.
// The driver checks the limits of a kernel or device. Python reads the numbers from the extension
// (weft.types.launch_limits).
#ifndef WEFT_RUNTIME_LAUNCH_LIMITS_H_
#define WEFT_RUNTIME_LAUNCH_LIMITS_H_

#include <weft/runtime_table.h>

#include <string>

namespace weft {

constexpr int64_t kMostGrid[3] = {2147483647, 65535, 65535};
constexpr int64_t kMostBlock[3] = {1024, 1024, 64};
constexpr int64_t kMostThreads = 1024;  // of a block
constexpr int64_t kMostClusterBlocks = 16;
constexpr int64_t kPortableClusterBlocks = 8;  // more only of kernels that allow it
constexpr int64_t kMostShared = 227 * 1024;    // of a block of sm_90 and sm_100, and on the CPU
constexpr int kWarpSize = 32;

// A sentence about the launch parameter that is out of range; empty if everything fits.
std::string launch_misfit(const char* kernel, const weft_launch& launch, int64_t most_threads,
                          int64_t most_shared);

}  // namespace weft

#endif  // WEFT_RUNTIME_LAUNCH_LIMITS_H_
