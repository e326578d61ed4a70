// SPDX-License-Identifier: Apache-2.0
//
// Objects to and from the tvm_ffi Python package, and functions for other languages.
#ifndef WEFT_PYTHON_INTEROP_H_
#define WEFT_PYTHON_INTEROP_H_

#include "python/common.h"

namespace weft {

struct Function;

// The object as an instance of the tvm_ffi package's class, which the caller has imported. The object
// keeps its reference. New reference, or nullptr with an exception set.
PyObject* to_foreign_object(TVMFFIObject* object);

// The handle of one of tvm_ffi's own Python objects, borrowed; nullptr with an exception.
TVMFFIObject* handle_of_foreign(PyObject* object);

// A new TVMFFIFunction over the same code, owned by the caller: the object that the function was made from,
// or one that keeps the function's owner alive. nullptr with an exception set.
TVMFFIObject* function_object(const Function& function);

}  // namespace weft

#endif  // WEFT_PYTHON_INTEROP_H_
