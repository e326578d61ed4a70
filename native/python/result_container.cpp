// SPDX-License-Identifier: Apache-2.0
//
// ffi.Array as a tuple and ffi.Map as a dict. The elements keep references of their own.
#include "python/owned_object.h"
#include "python/result.h"
#include "python/standard_function.h"

namespace weft {
namespace {

TVMFFIAny borrow(TVMFFIObject* object) {
  TVMFFIAny value = {};
  value.type_index = object->type_index;
  value.v_obj = object;
  return value;
}

// libtvm_ffi's iterator of maps: 0 asks for the key, 1 for the value, 2 steps.
int ask_iterator(TVMFFIObject* iterator, int64_t command, TVMFFIAny* answer) {
  TVMFFIAny argument = {};
  argument.type_index = kTVMFFIInt;
  argument.v_int64 = command;
  return call_object(iterator, &argument, 1, answer);
}

int fill_dict(PyObject* dict, TVMFFIObject* iterator, int64_t count, const ResultPolicy& policy) {
  for (int64_t index = 0; index < count; ++index) {
    TVMFFIAny answer;
    if (ask_iterator(iterator, 0, &answer) != 0) return -1;
    Reference key(result_to_python(answer, policy));
    if (!key || ask_iterator(iterator, 1, &answer) != 0) return -1;
    Reference value(result_to_python(answer, policy));
    if (!value || PyDict_SetItem(dict, key.get(), value.get()) != 0) return -1;
    if (ask_iterator(iterator, 2, &answer) != 0) return -1;
  }
  return 0;
}

int fill_tuple(PyObject* tuple, const TVMFFISeqCell& sequence, const ResultPolicy& policy) {
  for (int64_t index = 0; index < sequence.size; ++index) {
    PyObject* value = view_to_python(static_cast<const TVMFFIAny*>(sequence.data)[index], policy);
    if (value == nullptr) return -1;
    PyTuple_SET_ITEM(tuple, index, value);
  }
  return 0;
}

}  // namespace

PyObject* array_to_python(TVMFFIObject* object, const ResultPolicy& policy) {
  OwnedObject owned(object);
  const auto* sequence = contents<TVMFFISeqCell>(object);
  Reference tuple(PyTuple_New(sequence->size));
  if (!tuple || Py_EnterRecursiveCall(" while converting nested containers")) return nullptr;
  int failed = fill_tuple(tuple.get(), *sequence, policy);
  Py_LeaveRecursiveCall();
  return failed == 0 ? tuple.release() : nullptr;
}

PyObject* map_to_python(TVMFFIObject* object, const ResultPolicy& policy) {
  OwnedObject owned(object);
  TVMFFIAny map = borrow(object), size, iterator;
  Reference dict(PyDict_New());
  if (!dict || call_standard(Standard::kMapSize, &map, 1, &size) != 0) return nullptr;
  if (size.v_int64 == 0) return dict.release();
  if (call_standard(Standard::kMapIterator, &map, 1, &iterator) != 0) return nullptr;
  OwnedObject owned_iterator(iterator.v_obj);
  if (Py_EnterRecursiveCall(" while converting nested containers")) return nullptr;
  int failed = fill_dict(dict.get(), iterator.v_obj, size.v_int64, policy);
  Py_LeaveRecursiveCall();
  return failed == 0 ? dict.release() : nullptr;
}

}  // namespace weft
