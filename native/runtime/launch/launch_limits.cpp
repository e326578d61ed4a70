// SPDX-License-Identifier: Apache-2.0
//
// A launch's sizes, checked before they are narrowed to 32 bits.
#include "runtime/launch/launch_limits.h"

namespace weft {

std::string launch_misfit(const char* kernel, const weft_launch& launch, int64_t most_threads,
                          int64_t most_shared) {
  auto misfit = [&](std::string what, int64_t received, int64_t least, int64_t most) {
    return "launch of " + std::string(kernel) + ": " + what + " is " + std::to_string(received) +
           ", expected " + std::to_string(least) + " to " + std::to_string(most);
  };
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t blocks = launch.grid[axis], threads = launch.block[axis];
    if (blocks < 0 || blocks > kMostGrid[axis]) {
      return misfit(std::string("grid.") + "xyz"[axis], blocks, 0, kMostGrid[axis]);
    }
    if (threads < 1 || threads > kMostBlock[axis]) {
      return misfit(std::string("block.") + "xyz"[axis], threads, 1, kMostBlock[axis]);
    }
  }
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads > most_threads) return misfit("the number of threads of a block", threads, 1, most_threads);
  const int64_t shared = launch.shared_memory_bytes;
  if (shared < 0 || shared > most_shared) return misfit("shared_memory_bytes", shared, 0, most_shared);
  return {};
}

}  // namespace weft
