// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Object: a Python object that owns one reference to an FFI object, and the base of its
// classes. An object that gave its reference away is empty, and raises when used.
#ifndef WEFT_PYTHON_OBJECT_H_
#define WEFT_PYTHON_OBJECT_H_

#include "python/common.h"

namespace weft {

struct Object {
  PyObject base;
  TVMFFIObject* handle;  // owned; nullptr once moved from
  PyObject* weak_references;
};

PyTypeObject* object_type();

// Whether instances of a type are Objects, by inheritance.
bool is_object_type(PyTypeObject* type);

// The handle of an Object, borrowed; nullptr with ValueError if it was moved from.
TVMFFIObject* handle_of_object(PyObject* object);

// An instance of its type's class (object_class.cpp). Takes over the reference, even on failure.
PyObject* own_object(TVMFFIObject* handle);

// The class for objects of a type, borrowed: registered for it or its nearest ancestor. nullptr
// with an exception set.
PyTypeObject* class_of_index(int32_t type_index);

// "ffi.Array"; "type 99" for an unregistered index. New reference.
PyObject* type_key_of_index(int32_t type_index);

// The native base of weft.ffi.Tensor (tensor.cpp).
PyTypeObject* tensor_type();

}  // namespace weft

#endif  // WEFT_PYTHON_OBJECT_H_
