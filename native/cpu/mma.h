// SPDX-License-Identifier: Apache-2.0
//
// mma of a warp's fragments.
#ifndef WEFT_CPU_MMA_NATIVE_H_
#define WEFT_CPU_MMA_NATIVE_H_

#include "cpu/collectives.h"

namespace weft {

// Multiplies; all 32 lanes have posted the address of their weft_mma_operands. Sums are added in the order of
// k.
void multiply_fragments(const Warp& warp);

// Whether the metadata of a sparse A, if it is one, gives ascending places in each chunk.
bool has_ordered_metadata(const Warp& warp);

}  // namespace weft

#endif  // WEFT_CPU_MMA_NATIVE_H_
