// SPDX-License-Identifier: Apache-2.0
//
// The last launches of the process. An illegal access is reported by some later call, so the message lists
// possible causes. Recording takes a few nanoseconds and no lock.
#ifndef WEFT_DRIVER_LAUNCH_HISTORY_H_
#define WEFT_DRIVER_LAUNCH_HISTORY_H_

#include <cstdint>
#include <string>

namespace weft {

struct LaunchRecord {
  const char* kernel;  // interned
  const void* stream;
  int32_t device;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
};

void record_launch(const LaunchRecord& record);

// One line per launch, newest first, each ended by a newline; empty if there were none. A record being
// overwritten is left out.
std::string describe_last_launches();

}  // namespace weft

#endif  // WEFT_DRIVER_LAUNCH_HISTORY_H_
