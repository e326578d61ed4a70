// SPDX-License-Identifier: Apache-2.0
//
// The steps of a call that prepared calls share with ordinary ones.
#ifndef WEFT_PYTHON_CALL_H_
#define WEFT_PYTHON_CALL_H_

#include "python/call/function.h"
#include "python/values/encode/encode.h"

namespace weft {

// Calls with encoded values: sets the frame's stream, calls, restores, converts the result.
PyObject* call_encoded(const Function* function, CallFrame& frame, PyObject* const* arguments,
                       const TVMFFIAny* values, Py_ssize_t count);

// Lets a compiled function's wrapper check encoded values without calling the function, by giving no place
// for a result. 0, or -1 with the exception that a call would raise.
int check_encoded(const Function* function, const CallFrame& frame, const TVMFFIAny* values,
                  Py_ssize_t count);

// Calls with arguments in the order of the parameters, all of them: as many as the function's plan has.
PyObject* call_in_order(Function* function, PyObject* const* arguments, Py_ssize_t count);

// Names the argument in the pending exception.
WEFT_COLD void blame_argument(const Function* function, Py_ssize_t index, const CallFrame& frame);

}  // namespace weft

#endif  // WEFT_PYTHON_CALL_H_
