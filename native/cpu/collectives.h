// SPDX-License-Identifier: Apache-2.0
//
// The results of a warp's collectives, once all lanes have posted their values.
#ifndef WEFT_CPU_COLLECTIVES_H_
#define WEFT_CPU_COLLECTIVES_H_

#include <weft/cpu_cooperative.h>

#include <cstdint>

#include "cpu/slots.h"
#include "runtime/launch/launch_limits.h"

namespace weft {

using Warp = Slots;

// Whether an operation gives a lane another lane's value.
bool is_shuffle(int operation);

// Stores every lane's result. `lanes` take part: not empty, at the same site with the same mask, all values
// posted.
void compute_collective(const Warp& warp, uint32_t lanes, const weft_cooperative_site& site);

}  // namespace weft

#endif  // WEFT_CPU_COLLECTIVES_H_
