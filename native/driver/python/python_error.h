// SPDX-License-Identifier: Apache-2.0
//
// A driver error as a Python exception.
#ifndef WEFT_DRIVER_PYTHON_ERROR_H_
#define WEFT_DRIVER_PYTHON_ERROR_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "driver/library/driver_error.h"

namespace weft {

// Raises ValueError, TypeError, RuntimeError or weft.CudaError; returns nullptr. Needs the GIL.
PyObject* set_python_error(const DriverError& error);
// The weft.CudaError of a CUDA error, as a new reference; nullptr with an exception set. Needs the GIL.
PyObject* make_cuda_error(const DriverError& error);

}  // namespace weft

#endif  // WEFT_DRIVER_PYTHON_ERROR_H_
