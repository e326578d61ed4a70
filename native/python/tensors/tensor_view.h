// SPDX-License-Identifier: Apache-2.0
//
// weft._native.TensorView: a DLTensor* (type index 7). Made from an array it holds the memory and is passed
// to functions that take no tensor objects; as a callback's argument it is lent until the callback returns.
#ifndef WEFT_PYTHON_TENSOR_VIEW_H_
#define WEFT_PYTHON_TENSOR_VIEW_H_

#include "python/tensors/tensor_properties.h"

namespace weft {

PyTypeObject* tensor_view_type();

TensorDescription describe_tensor_view(PyObject* self);
Keeper keep_tensor_view(PyObject* self);

// A view of memory that is only lent.
PyObject* lend_tensor_view(const DLTensor* tensor);

// Ends the loan: the view can no longer be used. Returns how many exports are still in use, and would read
// memory about to disappear.
int end_tensor_view(PyObject* view);

}  // namespace weft

#endif  // WEFT_PYTHON_TENSOR_VIEW_H_
