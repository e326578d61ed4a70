// SPDX-License-Identifier: Apache-2.0
//
// Whether two compile-time values compile to the same code.
#ifndef WEFT_PYTHON_CONSTANT_KEY_H_
#define WEFT_PYTHON_CONSTANT_KEY_H_

#include "python/common.h"

namespace weft {

// A new object that is equal for values that compile to the same code, and only for these: 1, 1.0 and True
// differ, 0.0 and -0.0 too, NaN is itself. Hashable if the value is.
PyObject* constant_key(PyObject* value);

// 1 if both compile to the same code, else 0; -1 with an exception set.
int is_same_constant(PyObject* left, PyObject* right);

}  // namespace weft

#endif  // WEFT_PYTHON_CONSTANT_KEY_H_
