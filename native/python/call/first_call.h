// SPDX-License-Identifier: Apache-2.0
//
// Times a function's first call, which loads the kernels. Later calls cost nothing more, because the function
// has another vectorcall entry until then.
#ifndef WEFT_PYTHON_FIRST_CALL_H_
#define WEFT_PYTHON_FIRST_CALL_H_

#include "python/call/function.h"

namespace weft {

// Function.report_first_call(callback): after the first successful call, `callback(seconds)`; its exceptions
// go to sys.unraisablehook. None: no report.
PyObject* report_first_call(PyObject* self, PyObject* callback);

}  // namespace weft

#endif  // WEFT_PYTHON_FIRST_CALL_H_
