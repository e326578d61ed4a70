// SPDX-License-Identifier: Apache-2.0
//
// Python containers as FFI objects. A container owns its elements, so tensors in it are objects.
#include "python/call/constant_key.h"
#include "python/callbacks/standard_function.h"
#include "python/values/encode/encode.h"

namespace weft {
namespace {

void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// The object made of `count` values, owned by the scratch.
int construct(Standard constructor, const TVMFFIAny* values, Py_ssize_t count, Scratch& scratch,
              TVMFFIAny* value) {
  if (call_standard(constructor, values, count, value) != 0) return -1;
  return keep_owned(scratch, *value);
}

// The names of a container's items in messages.
struct Labels {
  PyObject* names = nullptr;         // of the fields: `.x`; nullptr for `[1]`
  PyObject* const* pairs = nullptr;  // of a dict's keys and values: `['key']`
};

PyObject* label_of(const Labels& labels, Py_ssize_t index) {
  if (labels.names != nullptr) return PyUnicode_FromFormat(".%U", PyTuple_GET_ITEM(labels.names, index));
  if (labels.pairs == nullptr) return PyUnicode_FromFormat("[%zd]", index);
  PyObject* label = PyUnicode_FromFormat(index % 2 == 0 ? ".keys()[%R]" : "[%R]", labels.pairs[index & ~1]);
  if (label != nullptr) return label;
  PyErr_Clear();  // the key cannot be shown
  return PyUnicode_FromFormat(index % 2 == 0 ? ".keys()[%zd]" : ".values()[%zd]", index / 2);
}

// Prepends an item's label to the path of what failed inside it.
WEFT_COLD int blame_item(CallFrame& frame, const Labels& labels, Py_ssize_t index) {
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyObject* label = label_of(labels, index);
  PyObject* path = label == nullptr || frame.failed_item == nullptr
                       ? Py_XNewRef(label)
                       : PyUnicode_Concat(label, frame.failed_item);
  Py_XDECREF(label);
  if (path != nullptr && frame.scratch.at_end(drop_reference, path) == 0) frame.failed_item = path;
  if (PyErr_Occurred()) PyErr_Clear();
  PyErr_Restore(type, error, traceback);
  return -1;
}

// Encodes `count` items, tensors among them as objects.
int encode_items(PyObject* const* items, Py_ssize_t count, const Labels& labels, uint8_t flags,
                 CallFrame& frame, TVMFFIAny* values) {
  PyObject* plan = (flags & kArgumentItems) != 0 ? PyTuple_GET_ITEM(frame.items, 0) : nullptr;
  if (plan != nullptr && PyTuple_GET_SIZE(plan) != count) plan = nullptr;  // the callee refuses the size
  if (Py_EnterRecursiveCall(" while encoding nested containers")) return -1;
  bool owned_tensors = frame.owned_tensors;
  frame.owned_tensors = true;
  int failed = 0;
  for (Py_ssize_t index = 0; index < count && failed == 0; ++index) {
    auto item_flags = static_cast<uint8_t>(flags & ~kArgumentItems);
    if (plan != nullptr) {
      PyObject* child = PyTuple_GET_ITEM(plan, index);
      bool is_container = PyTuple_Check(child);
      item_flags = is_container ? uint8_t{kArgumentItems} : static_cast<uint8_t>(PyLong_AsLong(child));
      if (is_container) frame.items = child;
    }
    if (PyLong_CheckExact(items[index]) && is_small_int(items[index]) &&
        (item_flags & kArgumentStream) == 0) {
      values[index] = {kTVMFFIInt, {0}, {small_int_value(items[index])}};
      continue;
    }
    const TypeEntry* entry = find_type(items[index]);
    failed = entry == nullptr ? -1 : encode_argument(items[index], *entry, item_flags, frame, &values[index]);
    if (WEFT_UNLIKELY(failed != 0)) blame_item(frame, labels, index);
  }
  frame.owned_tensors = owned_tensors;
  Py_LeaveRecursiveCall();
  return failed;
}

// The items of a tuple that lives until the call ends, as an ffi.Array.
int encode_tuple(PyObject* items, PyObject* names, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  Py_ssize_t count = PyTuple_GET_SIZE(items);
  auto* values = frame.scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
  if (values == nullptr) return -1;
  Labels labels{names, nullptr};
  if (encode_items(&PyTuple_GET_ITEM(items, 0), count, labels, flags, frame, values) != 0) return -1;
  return construct(Standard::kArray, values, count, frame.scratch, value);
}

// A record's compile-time fields must have the values compiled for; only this checks them.
int check_constants(PyObject* object, const TypeEntry& entry, PyObject* expected) {
  Py_ssize_t count = PyTuple_GET_SIZE(entry.constants);
  if (count != PyTuple_GET_SIZE(expected)) {
    return refuse(PyExc_TypeError, "expected an instance of the class it was compiled for, received %s",
                  entry.type->tp_name);
  }
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* name = PyTuple_GET_ITEM(entry.constants, index);
    PyObject* wanted = PyTuple_GET_ITEM(expected, index);
    Reference given(PyObject_GetAttr(object, name));
    if (!given) return -1;
    int same = is_same_constant(given.get(), wanted);
    if (same < 0) return -1;
    if (same == 0) {
      return refuse(
          PyExc_ValueError,
          "its compile-time field '%U' is %R, but the function was compiled for %R; compile it again", name,
          given.get(), wanted);
    }
  }
  return 0;
}

}  // namespace

PyObject* field_values(PyObject* object, PyObject* names) {
  Py_ssize_t count = PyTuple_GET_SIZE(names);
  Reference values(PyTuple_New(count));
  for (Py_ssize_t index = 0; values && index < count; ++index) {
    PyObject* value = PyObject_GetAttr(object, PyTuple_GET_ITEM(names, index));
    if (value == nullptr) return nullptr;
    PyTuple_SET_ITEM(values.get(), index, value);
  }
  return values.release();
}

int encode_sequence(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  PyObject* items = PySequence_Tuple(object);  // a list may change while its elements are read
  if (items == nullptr || frame.scratch.at_end(drop_reference, items) != 0) return -1;
  return encode_tuple(items, nullptr, flags, frame, value);
}

int encode_record(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                  TVMFFIAny* value) {
  if ((flags & kArgumentItems) != 0 &&
      check_constants(object, entry, PyTuple_GET_ITEM(frame.items, 1)) != 0) {
    return -1;
  }
  PyObject* items = field_values(object, entry.fields);
  if (items == nullptr || frame.scratch.at_end(drop_reference, items) != 0) return -1;
  return encode_tuple(items, entry.fields, flags, frame, value);
}

int encode_adapted(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                   TVMFFIAny* value) {
  Reference adapter(Py_NewRef(entry.adapter));  // it may register another one for its own type
  PyObject* adapted = PyObject_CallOneArg(adapter.get(), object);
  if (adapted == nullptr || frame.scratch.at_end(drop_reference, adapted) != 0) return -1;
  const TypeEntry* adapted_entry = find_type(adapted);
  if (adapted_entry == nullptr) return -1;
  if (Py_EnterRecursiveCall(" while adapting an argument")) return -1;
  int failed = encode_argument(adapted, *adapted_entry, flags, frame, value);
  Py_LeaveRecursiveCall();
  return failed;
}

int encode_dict(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  // A tuple of key, value, key, value, for the constructor.
  Py_ssize_t count = 2 * PyDict_GET_SIZE(object);
  PyObject* items = PyTuple_New(count);
  if (items == nullptr || frame.scratch.at_end(drop_reference, items) != 0) return -1;
  PyObject *key, *item;
  Py_ssize_t position = 0;
  Py_ssize_t filled = 0;  // fewer than counted if a finalizer removed some meanwhile
  for (; filled + 1 < count && PyDict_Next(object, &position, &key, &item); filled += 2) {
    PyTuple_SET_ITEM(items, filled, Py_NewRef(key));
    PyTuple_SET_ITEM(items, filled + 1, Py_NewRef(item));
  }
  count = filled;
  auto* values = frame.scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
  if (values == nullptr) return -1;
  flags = static_cast<uint8_t>(flags & ~kArgumentItems);
  PyObject* const* pairs = &PyTuple_GET_ITEM(items, 0);
  if (encode_items(pairs, count, {nullptr, pairs}, flags, frame, values) != 0) return -1;
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
