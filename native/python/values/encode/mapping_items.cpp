// SPDX-License-Identifier: Apache-2.0
//
// Reads the items of an ffi.Map or ffi.Dict in one go. libtvm_ffi's cursor points into the mapping, which
// must not change meanwhile: everything is read before the first value becomes a Python object, with the GIL
// held.
#include "python/values/encode/mapping_items.h"

#include <new>

#include "module.h"
#include "python/callbacks/standard_function.h"
#include "python/objects/object.h"
#include "python/objects/owned_object.h"
#include "python/results/result.h"

namespace weft {
namespace {

// The cursor's commands: the key, the value, the next pair.
enum Command : int64_t { kKey = 0, kValue = 1, kNext = 2 };

int ask(TVMFFIObject* cursor, Command command, TVMFFIAny* answer) {
  TVMFFIAny argument = {};
  argument.type_index = kTVMFFIInt;
  argument.v_int64 = command;
  return call_object(cursor, &argument, 1, answer);
}

PyObject* to_pairs(MappingItems* values, const ResultPolicy& policy) {
  Reference pairs(PyList_New(0));
  for (size_t index = 0; pairs && index < values->size(); index += 2) {
    Reference key(result_to_python(values->take(index), policy));
    Reference value(key ? result_to_python(values->take(index + 1), policy) : nullptr);
    Reference pair(value ? PyTuple_Pack(2, key.get(), value.get()) : nullptr);
    if (!pair || PyList_Append(pairs.get(), pair.get()) != 0) return nullptr;
  }
  return pairs.release();
}

PyObject* mapping_items(PyObject*, PyObject* arguments) {
  PyObject *mapping, *mode;
  ResultPolicy policy;
  if (!PyArg_ParseTuple(arguments, "O!O:mapping_items", object_type(), &mapping, &mode) ||
      set_object_mode(mode, &policy) != 0) {
    return nullptr;
  }
  TVMFFIObject* handle = handle_of_object(mapping);
  if (handle == nullptr) return nullptr;
  if (handle->type_index != kTVMFFIMap && handle->type_index != kTVMFFIDict) {
    PyErr_SetString(PyExc_TypeError, "expected an ffi.Map or an ffi.Dict");
    return nullptr;
  }
  MappingItems values;
  return values.read(handle) != 0 ? nullptr : to_pairs(&values, policy);
}

PyMethodDef kMethods[] = {
    {"mapping_items", mapping_items, METH_VARARGS,
     "mapping_items(mapping: Object, objects: str | None) -> list[tuple]\n--\n\n"
     "The pairs that an ffi.Map or ffi.Dict holds now."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int MappingItems::read_pairs(TVMFFIObject* cursor, int64_t count) {
  TVMFFIAny answer;
  for (int64_t index = 0; index < count; ++index) {
    for (Command part : {kKey, kValue}) {
      if (ask(cursor, part, &answer) != 0) return -1;
      values_.push_back(answer);  // room was reserved for all
    }
    if (ask(cursor, kNext, &answer) != 0) return -1;
  }
  return 0;
}

int MappingItems::read(TVMFFIObject* mapping) {
  const bool changes = mapping->type_index == kTVMFFIDict;
  TVMFFIAny argument = {}, size, cursor;
  argument.type_index = mapping->type_index;
  argument.v_obj = mapping;
  if (call_standard(changes ? Standard::kDictSize : Standard::kMapSize, &argument, 1, &size) != 0) return -1;
  if (size.v_int64 == 0) return 0;
  try {
    values_.reserve(2 * static_cast<size_t>(size.v_int64));
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return -1;
  }
  if (call_standard(changes ? Standard::kDictIterator : Standard::kMapIterator, &argument, 1, &cursor) != 0) {
    return -1;
  }
  OwnedObject owned(cursor.v_obj);
  return read_pairs(owned.get(), size.v_int64);
}

int add_mapping_items(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
