// SPDX-License-Identifier: Apache-2.0
//
// Python containers as FFI objects. A container owns its elements, so tensors in it are objects.
#include "python/encode.h"
#include "python/standard_function.h"

namespace weft {
namespace {

void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// The object made of `count` values, owned by the scratch.
int construct(Standard constructor, const TVMFFIAny* values, Py_ssize_t count, Scratch& scratch,
              TVMFFIAny* value) {
  if (call_standard(constructor, values, count, value) != 0) return -1;
  return keep_owned(scratch, *value);
}

// Encodes `count` items, tensors among them as objects.
int encode_items(PyObject* const* items, Py_ssize_t count, uint8_t flags, CallFrame& frame,
                 TVMFFIAny* values) {
  if (Py_EnterRecursiveCall(" while encoding nested containers")) return -1;
  bool owned_tensors = frame.owned_tensors;
  frame.owned_tensors = true;
  int failed = 0;
  for (Py_ssize_t index = 0; index < count && failed == 0; ++index) {
    const TypeEntry* entry = find_type(items[index]);
    failed = entry == nullptr ? -1 : encode_argument(items[index], *entry, flags, frame, &values[index]);
  }
  frame.owned_tensors = owned_tensors;
  Py_LeaveRecursiveCall();
  return failed;
}

}  // namespace

int encode_sequence(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  PyObject* items = PySequence_Tuple(object);  // a list may change while its elements are looked at
  if (items == nullptr || frame.scratch.at_end(drop_reference, items) != 0) return -1;
  Py_ssize_t count = PyTuple_GET_SIZE(items);
  auto* values = frame.scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
  if (values == nullptr) return -1;
  if (encode_items(&PyTuple_GET_ITEM(items, 0), count, flags, frame, values) != 0) return -1;
  return construct(Standard::kArray, values, count, frame.scratch, value);
}

int encode_dict(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  // A tuple of key, value, key, value, as the constructor wants it.
  Py_ssize_t count = 2 * PyDict_GET_SIZE(object);
  PyObject* items = PyTuple_New(count);
  if (items == nullptr || frame.scratch.at_end(drop_reference, items) != 0) return -1;
  PyObject *key, *item;
  Py_ssize_t position = 0;
  for (Py_ssize_t index = 0; index + 1 < count && PyDict_Next(object, &position, &key, &item); index += 2) {
    PyTuple_SET_ITEM(items, index, Py_NewRef(key));
    PyTuple_SET_ITEM(items, index + 1, Py_NewRef(item));
  }
  auto* values = frame.scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
  if (values == nullptr) return -1;
  if (encode_items(&PyTuple_GET_ITEM(items, 0), count, flags, frame, values) != 0) return -1;
  return construct(Standard::kMap, values, count, frame.scratch, value);
}

int encode_shape(PyObject* object, Scratch& scratch, TVMFFIAny* value) {
  Py_ssize_t count = PyTuple_GET_SIZE(object);
  auto* values = scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
  if (values == nullptr) return -1;
  for (Py_ssize_t axis = 0; axis < count; ++axis) {
    values[axis] = {kTVMFFIInt, {0}, {PyLong_AsLongLong(PyTuple_GET_ITEM(object, axis))}};
    if (values[axis].v_int64 == -1 && PyErr_Occurred()) return -1;
  }
  return construct(Standard::kShape, values, count, scratch, value);
}

}  // namespace weft
