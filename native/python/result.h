// SPDX-License-Identifier: Apache-2.0
//
// From FFI values to Python objects.
#ifndef WEFT_PYTHON_RESULT_H_
#define WEFT_PYTHON_RESULT_H_

#include "python/type_table.h"

namespace weft {

// Converts an owned value and takes over its reference, also when it fails. `like` is the entry of the
// call's first tensor argument, whose library new tensors are made for, or nullptr.
PyObject* result_to_python(TVMFFIAny value, const TypeEntry* like);

// The same for an object that is only borrowed, without a library for tensors.
PyObject* borrowed_to_python(TVMFFIObject* object);

}  // namespace weft

#endif  // WEFT_PYTHON_RESULT_H_
