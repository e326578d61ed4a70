// SPDX-License-Identifier: Apache-2.0
//
// Reads the items of an ffi.Map or ffi.Dict in one go.
#ifndef WEFT_PYTHON_MAPPING_ITEMS_H_
#define WEFT_PYTHON_MAPPING_ITEMS_H_

#include <vector>

#include "ffi_library.h"

namespace weft {

// Keys and values in turn, each owned until it is taken.
class MappingItems {
 public:
  MappingItems() = default;
  MappingItems(const MappingItems&) = delete;
  MappingItems& operator=(const MappingItems&) = delete;
  ~MappingItems() {
    for (const TVMFFIAny& value : values_) {
      if (value.type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(value.v_obj);
    }
  }
  // Reads a mapping, which is borrowed, to its end. 0, or -1 with an exception.
  int read(TVMFFIObject* mapping);
  size_t size() const { return values_.size(); }
  const TVMFFIAny& at(size_t index) const { return values_[index]; }
  TVMFFIAny take(size_t index) {
    TVMFFIAny value = values_[index];
    values_[index] = {};
    return value;
  }

 private:
  int read_pairs(TVMFFIObject* cursor, int64_t count);
  std::vector<TVMFFIAny> values_;
};

}  // namespace weft

#endif  // WEFT_PYTHON_MAPPING_ITEMS_H_
