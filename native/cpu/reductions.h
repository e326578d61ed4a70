// SPDX-License-Identifier: Apache-2.0
//
// Reductions of a copy into the elements of a tensor, instead of replacing them.
#ifndef WEFT_CPU_REDUCTIONS_H_
#define WEFT_CPU_REDUCTIONS_H_

#include <weft/tensor_map.h>

#include <cstddef>
#include <cstdint>

namespace weft {

// Combines elements of the tensor at `place` with others; each in one step, as blocks run at the same time.
void tma_combine(const weft_cpu_tensor_map& map, int32_t reduction, char* place, const char* elements,
                 size_t bytes);

}  // namespace weft

#endif  // WEFT_CPU_REDUCTIONS_H_
