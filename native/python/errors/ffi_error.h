// SPDX-License-Identifier: Apache-2.0
//
// From an FFI error to a Python exception.
#ifndef WEFT_PYTHON_FFI_ERROR_H_
#define WEFT_PYTHON_FFI_ERROR_H_

#include "python/common.h"

namespace weft {

// Raises the error of a safe call that returned `code`; always nullptr. -2 and the kind
// EnvErrorAlreadySet mean that a Python exception is pending.
WEFT_COLD PyObject* raise_ffi_error(int code);

// The Python exception of an error object, as a new reference; nullptr with another exception set. The
// error keeps its reference.
PyObject* exception_of_error(TVMFFIObjectHandle error);

// An exception class's kind: its own if it is builtin or registered, else that of its nearest base. Borrowed.
PyObject* kind_of_class(PyTypeObject* type);

// Puts "NAME(SIGNATURE): argument #INDEX 'PARAMETER': " before the message of the pending exception. Without
// parameter names, `path` leads to an item of a container: "[1]['key']".
WEFT_COLD void name_argument(PyObject* signature, Py_ssize_t index, PyObject* parameter,
                             PyObject* path = nullptr);

}  // namespace weft

#endif  // WEFT_PYTHON_FFI_ERROR_H_
