// SPDX-License-Identifier: Apache-2.0
//
// ffi.Array as a tuple and ffi.Map as a dict. The elements have their own references.
#include "python/objects/owned_object.h"
#include "python/results/result.h"
#include "python/values/encode/mapping_items.h"

namespace weft {
namespace {

int fill_dict(PyObject* dict, MappingItems* items, const ResultPolicy& policy) {
  for (size_t index = 0; index < items->size(); index += 2) {
    Reference key(result_to_python(items->take(index), policy));
    Reference value(key ? result_to_python(items->take(index + 1), policy) : nullptr);
    if (!value || PyDict_SetItem(dict, key.get(), value.get()) != 0) return -1;
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
  MappingItems items;
  Reference dict(PyDict_New());
  if (!dict || items.read(object) != 0) return nullptr;
  if (Py_EnterRecursiveCall(" while converting nested containers")) return nullptr;
  int failed = fill_dict(dict.get(), &items, policy);
  Py_LeaveRecursiveCall();
  return failed == 0 ? dict.release() : nullptr;
}

PyObject* restore_result(PyObject* tuple, PyObject* plan) {
  PyObject* make = PyTuple_GET_ITEM(plan, 0);
  PyObject* children = PyTuple_GET_ITEM(plan, 1);
  const Py_ssize_t count = PyTuple_GET_SIZE(children);
  if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != count) return Py_NewRef(tuple);
  Reference items(PyTuple_New(count));
  for (Py_ssize_t index = 0; items && index < count; ++index) {
    PyObject* item = PyTuple_GET_ITEM(tuple, index);
    PyObject* child = PyTuple_GET_ITEM(children, index);
    PyObject* restored = child == Py_None ? Py_NewRef(item) : restore_result(item, child);
    if (restored == nullptr) return nullptr;
    PyTuple_SET_ITEM(items.get(), index, restored);
  }
  return items && make != Py_None ? PyObject_CallOneArg(make, items.get()) : items.release();
}

}  // namespace weft
