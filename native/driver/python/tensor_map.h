// SPDX-License-Identifier: Apache-2.0
//
// weft._native.TensorMap: a TMA descriptor with its parameters.
#ifndef WEFT_DRIVER_TENSOR_MAP_H_
#define WEFT_DRIVER_TENSOR_MAP_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace weft {

bool is_tensor_map(PyObject* object);

// The 128 bytes of a TensorMap, borrowed; nullptr with ValueError for one that is not filled.
const void* tensor_map_of(PyObject* object);

}  // namespace weft

#endif  // WEFT_DRIVER_TENSOR_MAP_H_
