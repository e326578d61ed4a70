// SPDX-License-Identifier: Apache-2.0
//
// The slots of threads that follow each other in a block: of all of them, a warp or a warpgroup.
#ifndef WEFT_CPU_SLOTS_H_
#define WEFT_CPU_SLOTS_H_

#include <weft/cpu_cooperative.h>

#include <cstdint>

namespace weft {

// Slots lie `stride` bytes apart.
class Slots {
 public:
  Slots(char* first, int64_t stride) : first_(first), stride_(stride) {}
  weft_thread_slot& operator[](int32_t thread) const {
    return *reinterpret_cast<weft_thread_slot*>(first_ + thread * stride_);
  }
  Slots from(int32_t thread) const { return {first_ + thread * stride_, stride_}; }

 private:
  char* first_;
  int64_t stride_;
};

}  // namespace weft

#endif  // WEFT_CPU_SLOTS_H_
