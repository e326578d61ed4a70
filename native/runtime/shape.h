// SPDX-License-Identifier: Apache-2.0
//
// The row of the runtime table that reads a shape argument.
#ifndef WEFT_RUNTIME_SHAPE_H_
#define WEFT_RUNTIME_SHAPE_H_

#include <weft/runtime_table.h>

namespace weft {

int32_t decode_shape(const weft_failure_site* kind, const weft_failure_site* size,
                     const weft_failure_site* item, const TVMFFIAny* argument, int64_t count, int64_t* sizes);

}  // namespace weft

#endif  // WEFT_RUNTIME_SHAPE_H_
