// SPDX-License-Identifier: Apache-2.0
//
// How long a function's first call takes: it loads the kernels, which no compilation does. Later calls cost
// what they always cost, because the function's vectorcall entry is another one until then.
#ifndef WEFT_PYTHON_FIRST_CALL_H_
#define WEFT_PYTHON_FIRST_CALL_H_

#include "python/call/function.h"

namespace weft {

// Function.report_first_call(callback): after the first call that succeeds, `callback(seconds)`; what it
// raises goes to sys.unraisablehook. None: no report.
PyObject* report_first_call(PyObject* self, PyObject* callback);

}  // namespace weft

#endif  // WEFT_PYTHON_FIRST_CALL_H_
