// SPDX-License-Identifier: Apache-2.0
//
// The threads of a warpgroup meet at one place, all 128 of them: as on a GPU, those that have returned are
// missed.
#include "cpu/meetings.h"

#include <algorithm>

namespace weft {

int32_t Meetings::open(const char** error) {
  int32_t opened = 0;
  for (int32_t first = 0; first < threads_ && *error == nullptr; first += kWarpgroupSize) {
    opened += open_warpgroup(first, error);
  }
  return opened;
}

int32_t Meetings::open_warpgroup(int32_t first, const char** error) {
  const Slots warpgroup = slots_.from(first);
  const int32_t size = std::min(threads_ - first, kWarpgroupSize);
  int32_t here = 0;
  int32_t exited = 0;
  int32_t site = -1;
  bool differ = false;
  for (int32_t thread = 0; thread < size; ++thread) {
    const weft_thread_slot& own = warpgroup[thread];
    exited += own.state == WEFT_THREAD_EXITED ? 1 : 0;
    if (own.state != WEFT_THREAD_WARPGROUP) continue;
    differ |= here != 0 && own.site != site;
    site = own.site;
    ++here;
  }
  if (here == 0) return 0;
  if (size < kWarpgroupSize) {
    *error = "a warpgroup has 128 threads, but the block's last one has fewer";
  } else if (exited != 0) {
    *error = "a warpgroup waits for threads that have exited";
  } else if (differ) {
    *error = "threads of a warpgroup wait at different places";
  } else if (here == kWarpgroupSize) {
    *error = compute_warpgroup(first, kernel_.sites[site]);
  }
  if (*error != nullptr || here < kWarpgroupSize) return 0;
  for (int32_t thread = 0; thread < kWarpgroupSize; ++thread) {
    warpgroup[thread].state = WEFT_THREAD_READY;
  }
  return kWarpgroupSize;
}

const char* Meetings::compute_warpgroup(int32_t, const weft_cooperative_site&) {
  return nullptr;  // sync_warpgroup
}

}  // namespace weft
