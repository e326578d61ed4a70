// SPDX-License-Identifier: Apache-2.0
//
// Small values that have a class in weft.ffi: element types, devices and shapes.
#ifndef WEFT_PYTHON_VALUE_CLASS_H_
#define WEFT_PYTHON_VALUE_CLASS_H_

#include "python/common.h"

namespace weft {

PyObject* data_type_to_python(DLDataType type);                    // weft.ffi.DataType
PyObject* device_to_python(DLDevice device);                       // weft.ffi.Device
PyObject* shape_to_python(const int64_t* dims, Py_ssize_t count);  // weft.ffi.Shape
PyObject* dims_to_tuple(const int64_t* dims, Py_ssize_t count);

}  // namespace weft

#endif  // WEFT_PYTHON_VALUE_CLASS_H_
