// SPDX-License-Identifier: Apache-2.0
//
// From a Python exception to an FFI error that carries it, and Python objects as opaque FFI objects.
#ifndef WEFT_PYTHON_FOREIGN_ERROR_H_
#define WEFT_PYTHON_FOREIGN_ERROR_H_

#include "python/common.h"

namespace weft {

// An opaque object that owns a reference to a Python object and releases it on any thread. The caller
// owns the result; nullptr with an exception set.
TVMFFIObject* make_opaque(PyObject* object);

// An error object with the exception's kind, message, Python traceback and causes. The exception itself is
// attached, so that Python raises the same object again. The caller owns the result; nullptr with
// MemoryError.
TVMFFIObject* error_of_exception(PyObject* exception);

// Moves the pending exception into the FFI's raised error of this thread. Always -1, the result of a failing
// safe call.
WEFT_COLD int raise_into_ffi();

// An FFI error without an exception, for callers that have no Python. Always -1.
WEFT_COLD int raise_text_into_ffi(const char* kind, const char* message);

}  // namespace weft

#endif  // WEFT_PYTHON_FOREIGN_ERROR_H_
