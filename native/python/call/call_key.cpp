// SPDX-License-Identifier: Apache-2.0
//
// The key of a call of a ready-made function: everything about its arguments but elements and addresses, so
// that equal keys are equal work.
#include "module.h"
#include "python/call/key.h"

namespace weft {
namespace {

// Where the tensors of a call lie, which a key tells relative to each other only.
struct Places {
  struct Place {
    uint64_t address, first, last;  // of the first element; of the bytes from the lowest to the highest one
  };
  static constexpr int kMost = 16;
  static constexpr uint64_t kWidestAccess = 16;  // bytes; addresses count modulo it
  Place found[kMost];
  int count = 0;
};

// All that a kernel's choice may depend on, but no address: 1 if the key cannot hold it.
int add_layout(const TypeEntry& entry, const TensorView& view, Places& places, Key& key) {
  const DLTensor& tensor = view.tensor;
  if (places.count == Places::kMost) return 1;
  const uint64_t bytes = (static_cast<uint64_t>(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
  const uint64_t address = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
  Places::Place place = {address, address, address + bytes - 1};
  bool empty = false;
  key.add_value(entry.serial);
  key.add_value(tensor.dtype);
  key.add_value(tensor.device);
  key.add(view.read_only);
  key.add(static_cast<uint8_t>(address % Places::kWidestAccess));
  key.add_value(tensor.ndim);
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    key.add_value(tensor.shape[axis]);
    key.add_value(tensor.strides[axis]);
    empty |= tensor.shape[axis] == 0;
    const uint64_t span =
        static_cast<uint64_t>(tensor.shape[axis] - 1) * static_cast<uint64_t>(tensor.strides[axis]) * bytes;
    (tensor.strides[axis] < 0 ? place.first : place.last) += span;
  }
  for (int index = 0; index < places.count && !empty; ++index) {
    const Places::Place& other = places.found[index];
    if (place.first > other.last || other.first > place.last) continue;
    key.add(static_cast<uint8_t>(index + 1));
    key.add_value(address - other.address);
  }
  key.add(0);
  if (!empty) places.found[places.count++] = place;
  return 0;
}

int add_text(PyObject* object, Key& key) {
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) return -1;
  key.add('s');
  key.add_value(size);
  key.add_bytes(text, static_cast<size_t>(size));
  return 0;
}

// One argument with its value: 0, 1 if the key cannot hold it, or -1.
int add_exactly(PyObject* object, Scratch& scratch, Places& places, Key& key) {
  if (PyTuple_CheckExact(object)) {
    key.add('t');
    key.add_value(PyTuple_GET_SIZE(object));
    if (Py_EnterRecursiveCall(" while examining nested tuples")) return -1;
    int failed = 0;
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(object) && failed == 0; ++index) {
      failed = add_exactly(PyTuple_GET_ITEM(object, index), scratch, places, key);
    }
    Py_LeaveRecursiveCall();
    return failed;
  }
  if (object == Py_None || PyBool_Check(object)) {
    key.add(object == Py_None ? 'n' : object == Py_True ? '1' : '0');
    return 0;
  }
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return 1;
    key.add('i');
    key.add_value(value);
    return 0;
  }
  if (PyFloat_CheckExact(object)) {
    key.add('f');
    key.add_value(PyFloat_AS_DOUBLE(object));
    return 0;
  }
  if (PyUnicode_CheckExact(object)) return add_text(object, key);
  if (!PyLong_Check(object) && !PyFloat_Check(object) && !PyUnicode_Check(object)) {
    const TypeEntry* entry = find_type(object);
    if (entry == nullptr) return -1;
    TensorView view;
    const int found = view_of(object, *entry, scratch, &view);
    if (found < 0) return -1;
    if (found > 0) {
      key.add('a');
      return add_layout(*entry, view, places, key);
    }
  }
  key.add('o');
  return key.add_constant(object);
}

PyObject* call_key(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(given[0]) || !PyDict_Check(given[1])) {
    PyErr_SetString(PyExc_TypeError, "call_key: expected a tuple and a dictionary");
    return nullptr;
  }
  Key key;
  Scratch scratch;
  Places places;
  int failed = 0;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(given[0]) && failed == 0; ++index) {
    failed = add_exactly(PyTuple_GET_ITEM(given[0], index), scratch, places, key);
  }
  PyObject *name, *value;
  Py_ssize_t place = 0;
  while (failed == 0 && PyDict_Next(given[1], &place, &name, &value)) {
    Reference kept(Py_NewRef(value));
    failed = add_text(name, key);
    if (failed == 0) failed = add_exactly(value, scratch, places, key);
  }
  Reference made(failed == 0 ? key.to_object() : nullptr);
  if (made && PyObject_Hash(made.get()) != -1) return made.release();
  // The function itself reports a wrong argument.
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return nullptr;
    PyErr_Clear();
  }
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"call_key", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_key)), METH_FASTCALL,
     "call_key(arguments: tuple, keywords: dict) -> object\n--\n\n"
     "Equal for calls that differ in nothing but the elements of their tensors and where these lie: types,\n"
     "devices, dims, strides, addresses modulo 16, how tensors overlap, and the values of all other "
     "arguments.\n"
     "None for calls that have no key. Valid in this process only."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_call_keys(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
