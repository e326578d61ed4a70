// SPDX-License-Identifier: Apache-2.0
//
// `weft.tensor_map` in host functions, for both targets.
#ifndef WEFT_DRIVER_MAKE_TENSOR_MAP_H_
#define WEFT_DRIVER_MAKE_TENSOR_MAP_H_

#include <weft/runtime_table.h>

namespace weft {

int32_t make_tensor_map(weft_call_frame* frame, const weft_tensor_map_site* site, const void* address,
                        const int64_t* sizes, const int64_t* strides, void* map);

}  // namespace weft

#endif  // WEFT_DRIVER_MAKE_TENSOR_MAP_H_
