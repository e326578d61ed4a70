// SPDX-License-Identifier: Apache-2.0
//
// A reference to an FFI object that is dropped at the end of the scope.
#ifndef WEFT_PYTHON_OWNED_OBJECT_H_
#define WEFT_PYTHON_OWNED_OBJECT_H_

#include "ffi_library.h"
#include "python/common.h"

namespace weft {

class OwnedObject {
 public:
  explicit OwnedObject(TVMFFIObject* object) : object_(object) {}
  ~OwnedObject() {
    if (object_ != nullptr) or_wait_for_the_end([this] { ffi().object_dec_ref(object_); });
  }
  OwnedObject(const OwnedObject&) = delete;
  OwnedObject& operator=(const OwnedObject&) = delete;
  TVMFFIObject* get() const { return object_; }

 private:
  TVMFFIObject* object_;
};

// What follows an object's header.
template <typename Cell>
const Cell* contents(const TVMFFIObject* object) {
  return reinterpret_cast<const Cell*>(object + 1);
}

}  // namespace weft

#endif  // WEFT_PYTHON_OWNED_OBJECT_H_
