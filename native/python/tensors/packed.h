// SPDX-License-Identifier: Apache-2.0
//
// weft.packed: an array of bytes as a tensor of elements of less than a byte.
#ifndef WEFT_PYTHON_PACKED_H_
#define WEFT_PYTHON_PACKED_H_

#include "python/call/scratch.h"
#include "python/values/type_table.h"

namespace weft {

PyTypeObject* packed_type();

// The array of bytes. Borrowed.
PyObject* packed_array(PyObject* self);

// Makes a view of the bytes one of the packed elements, with dims of its own in scratch. 0, or -1 with an
// exception.
int pack_view(PyObject* self, Scratch& scratch, TensorView* view);

}  // namespace weft

#endif  // WEFT_PYTHON_PACKED_H_
