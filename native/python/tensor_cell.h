// SPDX-License-Identifier: Apache-2.0
//
// Reference-counted tensors (type index 70) over the memory of an argument, for callees that keep or return
// what they are given. Cells are pooled; one that is still referenced when the call ends has escaped, takes
// a reference to its source and frees itself.
#ifndef WEFT_PYTHON_TENSOR_CELL_H_
#define WEFT_PYTHON_TENSOR_CELL_H_

#include "python/type_table.h"

namespace weft {

// A cell for `source` with the contents of `view`, returned to the pool when the scratch ends. nullptr with
// an exception set.
TVMFFIObject* take_cell(PyObject* source, const TypeEntry& entry, const TensorView& view, Scratch& scratch);

// The argument that a tensor object stands for, if it is a cell of a call in progress; else nullptr.
// Borrowed.
PyObject* source_of_cell(const TVMFFIObject* object);

inline DLTensor* tensor_of(TVMFFIObject* object) { return reinterpret_cast<DLTensor*>(object + 1); }

}  // namespace weft

#endif  // WEFT_PYTHON_TENSOR_CELL_H_
