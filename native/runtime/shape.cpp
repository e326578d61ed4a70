// SPDX-License-Identifier: Apache-2.0
//
// Shapes come as ffi.Shape, which is plain integers, or as a sequence of values that must be integers.
#include "runtime/shape.h"

#include <algorithm>

#include "runtime/failure.h"

namespace weft {

int32_t decode_shape(const weft_failure_site* kind, const weft_failure_site* size,
                     const weft_failure_site* item, const TVMFFIAny* argument, int64_t count,
                     int64_t* sizes) {
  const int32_t type = argument->type_index;
  const bool is_shape = type == kTVMFFIShape;
  const bool is_sequence = type == kTVMFFIArray || type == kTVMFFIList;
  if ((!is_shape && !is_sequence) || argument->v_obj == nullptr) return fail_any(kind, argument);
  if (is_shape) {
    const auto* cell = reinterpret_cast<const TVMFFIShapeCell*>(argument->v_obj + 1);
    const auto given = static_cast<int64_t>(cell->size);
    if (given != count) return fail(size, given, count);
    std::copy_n(cell->data, cell->size, sizes);
    return 0;
  }
  const auto* cell = reinterpret_cast<const TVMFFISeqCell*>(argument->v_obj + 1);
  if (cell->size != count) return fail(size, cell->size, count);
  const auto* items = static_cast<const TVMFFIAny*>(cell->data);
  for (int64_t index = 0; index < count; ++index) {
    if (items[index].type_index != kTVMFFIInt) {
      weft_failure_site site = *item;
      // An int beyond 64 bits is of the right kind, and out of range.
      if (items[index].type_index == kTVMFFIBigInt) site.kind = WEFT_FAILURE_shape_item_range;
      site.index = static_cast<int32_t>(index);
      return fail_any(&site, &items[index]);
    }
    sizes[index] = items[index].v_int64;
  }
  return 0;
}

}  // namespace weft
