// SPDX-License-Identifier: Apache-2.0
//
// Elements of tensors as Python's numbers, and numbers as elements.
#ifndef WEFT_PYTHON_ELEMENT_H_
#define WEFT_PYTHON_ELEMENT_H_

#include "python/common.h"

namespace weft {

inline constexpr int64_t kMostElementBytes = 16;

// The number at an address, a new reference; nullptr with TypeError for types that Python has no number for.
PyObject* read_element(DLDataType type, const char* from);

// The bytes of a number in one of weft's element types, checked as an argument of a kernel is. 0, or -1 with
// an exception.
int write_element(PyObject* number, DLDataType type, char* to);

}  // namespace weft

#endif  // WEFT_PYTHON_ELEMENT_H_
