// SPDX-License-Identifier: Apache-2.0
//
// weft._native.PreparedCall: a call with already converted, replaceable arguments.
#ifndef WEFT_PYTHON_PREPARED_CALL_H_
#define WEFT_PYTHON_PREPARED_CALL_H_

#include "python/call/function.h"

namespace weft {

// `Function.prepare`: binds and converts the arguments. nullptr with an exception that names the argument.
PyObject* prepare_call(PyObject* function, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords);

}  // namespace weft

#endif  // WEFT_PYTHON_PREPARED_CALL_H_
