// SPDX-License-Identifier: Apache-2.0
//
// A tensor whose memory is held until the scope ends, whatever is done to the Python object meanwhile: for
// what runs Python code or gives up the GIL while it reads or writes.
#ifndef WEFT_PYTHON_HELD_TENSOR_H_
#define WEFT_PYTHON_HELD_TENSOR_H_

#include "python/tensors/tensor_properties.h"

namespace weft {

class HeldTensor {
 public:
  HeldTensor() = default;
  ~HeldTensor();
  HeldTensor(const HeldTensor&) = delete;
  HeldTensor& operator=(const HeldTensor&) = delete;

  // Of a Tensor or a TensorView. 0, or -1 with an exception.
  int hold(PyObject* tensor);
  // Of any library's array, whose memory is read in place; errors call it `role`.
  int hold_array(PyObject* value, const char* role);

  // The tensor object that is held; not of a view that is only lent.
  TVMFFIObject* owner() const { return static_cast<TVMFFIObject*>(keeper_.object); }

  DLTensor tensor{};  // dims and strides belong to the held object
  bool read_only = false;
  bool copied = false;  // the array's library made a copy, so writes are lost

 private:
  Keeper keeper_{nullptr, nullptr};
};

// Whether a value is an array of some library: held by hold_array and not a number. -1 with an exception.
int is_array(PyObject* value);

}  // namespace weft

#endif  // WEFT_PYTHON_HELD_TENSOR_H_
