// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Object: a Python object that owns one reference to an FFI object.
#ifndef WEFT_PYTHON_OBJECT_H_
#define WEFT_PYTHON_OBJECT_H_

#include "python/common.h"

namespace weft {

struct Object {
  PyObject base;
  TVMFFIObject* handle;  // owned
  PyObject* weak_references;
};

PyTypeObject* object_type();

// Takes over the reference, also when it fails.
PyObject* own_object(TVMFFIObject* handle);

}  // namespace weft

#endif  // WEFT_PYTHON_OBJECT_H_
