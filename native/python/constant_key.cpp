// SPDX-License-Identifier: Apache-2.0
//
// A value goes with its type; floats by their shortest text, which tells the zeros apart; tuples item by
// item.
#include "python/constant_key.h"

namespace weft {
namespace {

PyObject* key_of_items(PyObject* tuple) {
  Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  Reference keys(PyTuple_New(count));
  if (!keys || Py_EnterRecursiveCall(" while looking at a compile-time value")) return nullptr;
  bool failed = false;
  for (Py_ssize_t index = 0; index < count && !failed; ++index) {
    PyObject* key = constant_key(PyTuple_GET_ITEM(tuple, index));
    failed = key == nullptr;
    PyTuple_SET_ITEM(keys.get(), index, key);
  }
  Py_LeaveRecursiveCall();
  return failed ? nullptr : keys.release();
}

}  // namespace

PyObject* constant_key(PyObject* value) {
  Reference content(PyFloat_Check(value)        ? PyObject_Repr(value)
                    : PyTuple_CheckExact(value) ? key_of_items(value)
                                                : Py_NewRef(value));
  return content ? PyTuple_Pack(2, Py_TYPE(value), content.get()) : nullptr;
}

int is_same_constant(PyObject* left, PyObject* right) {
  if (left == right) return 1;
  Reference left_key(constant_key(left));
  Reference right_key(left_key ? constant_key(right) : nullptr);
  return right_key ? PyObject_RichCompareBool(left_key.get(), right_key.get(), Py_EQ) : -1;
}

}  // namespace weft
