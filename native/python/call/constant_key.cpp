// SPDX-License-Identifier: Apache-2.0
//
// A value is keyed with its type; floats by their shortest text, which tells the zeros apart; tuples, frozen
// sets and frozen dataclasses by their contents.
#include "python/call/constant_key.h"

namespace weft {
namespace {

PyObject* key_of_items(PyObject* tuple) {
  Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  Reference keys(PyTuple_New(count));
  bool failed = !keys;
  for (Py_ssize_t index = 0; index < count && !failed; ++index) {
    PyObject* key = constant_key(PyTuple_GET_ITEM(tuple, index));
    failed = key == nullptr;
    PyTuple_SET_ITEM(keys.get(), index, key);
  }
  return failed ? nullptr : keys.release();
}

PyObject* key_of_set(PyObject* set) {
  Reference items(PySequence_Tuple(set));
  Reference keys(items ? key_of_items(items.get()) : nullptr);
  return keys ? PyFrozenSet_New(keys.get()) : nullptr;
}

PyObject* key_of_fields(PyObject* record, PyObject* fields) {
  Reference names(PySequence_Tuple(fields));
  Reference values(names ? PyList_New(0) : nullptr);
  if (!values) return nullptr;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names.get()); ++index) {
    Reference value(PyObject_GetAttr(record, PyTuple_GET_ITEM(names.get(), index)));
    if (!value) {
      // Parameters of the initializer that are not fields.
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
      PyErr_Clear();
      value.reset(Py_NewRef(Py_Ellipsis));
    }
    if (PyList_Append(values.get(), value.get()) != 0) return nullptr;
  }
  Reference tuple(PyList_AsTuple(values.get()));
  return tuple ? key_of_items(tuple.get()) : nullptr;
}

// An attribute of a type, or null without an exception.
PyObject* type_attribute(PyTypeObject* type, const char* name) {
  PyObject* found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name);
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return found;
}

// The fields of a frozen dataclass; null, perhaps with an exception, for anything else.
PyObject* frozen_fields(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  // The types of most values, which have no fields.
  if (PyLong_Check(value) || PyUnicode_Check(value) || value == Py_None || PyType_Check(value) ||
      PyFunction_Check(value)) {
    return nullptr;
  }
  Reference parameters(type_attribute(type, "__dataclass_params__"));
  if (!parameters) return nullptr;
  Reference frozen(PyObject_GetAttrString(parameters.get(), "frozen"));
  if (!frozen || frozen.get() != Py_True) return nullptr;
  return type_attribute(type, "__dataclass_fields__");
}

// A value's key besides its type.
PyObject* content_of(PyObject* value) {
  if (PyFloat_Check(value)) return PyObject_Repr(value);
  if (PyTuple_Check(value)) return key_of_items(value);
  if (PyFrozenSet_Check(value)) return key_of_set(value);
  Reference fields(frozen_fields(value));
  if (fields) return key_of_fields(value, fields.get());
  return PyErr_Occurred() ? nullptr : Py_NewRef(value);
}

}  // namespace

PyObject* constant_key(PyObject* value) {
  if (Py_EnterRecursiveCall(" while looking at a compile-time value")) return nullptr;
  Reference content(content_of(value));
  Py_LeaveRecursiveCall();
  return content ? PyTuple_Pack(2, Py_TYPE(value), content.get()) : nullptr;
}

int is_same_constant(PyObject* left, PyObject* right) {
  if (left == right) return 1;
  Reference left_key(constant_key(left));
  Reference right_key(left_key ? constant_key(right) : nullptr);
  return right_key ? PyObject_RichCompareBool(left_key.get(), right_key.get(), Py_EQ) : -1;
}

}  // namespace weft
