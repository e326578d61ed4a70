// SPDX-License-Identifier: Apache-2.0
//
// The results of a warp's collectives, once all lanes have posted their values.
#ifndef WEFT_CPU_COLLECTIVES_H_
#define WEFT_CPU_COLLECTIVES_H_

#include <weft/cpu_cooperative.h>

#include <cstdint>

#include "runtime/launch/launch_limits.h"

namespace weft {

// A warp's slots lie `stride` bytes apart.
class Warp {
 public:
  Warp(char* first, int64_t stride) : first_(first), stride_(stride) {}
  weft_thread_slot& operator[](int lane) const {
    return *reinterpret_cast<weft_thread_slot*>(first_ + lane * stride_);
  }

 private:
  char* first_;
  int64_t stride_;
};

// Whether an operation gives a lane another lane's value.
bool is_shuffle(int operation);

// Stores every lane's result. `lanes` take part: not empty, at the same site with the same mask, all values
// posted.
void compute_collective(const Warp& warp, uint32_t lanes, const weft_cooperative_site& site);

}  // namespace weft

#endif  // WEFT_CPU_COLLECTIVES_H_
