// SPDX-License-Identifier: Apache-2.0
//
// What ffi.Map and ffi.Dict hold, read in one go. libtvm_ffi's cursor points into the mapping, so nothing may
// change that while it walks: all is read before the first value becomes a Python object, and the GIL is
// held.
#include <vector>

#include "module.h"
#include "python/object.h"
#include "python/owned_object.h"
#include "python/result.h"
#include "python/standard_function.h"

namespace weft {
namespace {

// Values that are owned until they are taken.
class Values {
 public:
  Values() = default;
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values() {
    for (const TVMFFIAny& value : values_) {
      if (value.type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(value.v_obj);
    }
  }
  void reserve(size_t count) { values_.reserve(count); }
  void add(const TVMFFIAny& value) { values_.push_back(value); }
  size_t size() const { return values_.size(); }
  TVMFFIAny take(size_t index) {
    TVMFFIAny value = values_[index];
    values_[index] = {};
    return value;
  }

 private:
  std::vector<TVMFFIAny> values_;
};

// The cursor's commands: the key, the value, the next pair.
enum Command : int64_t { kKey = 0, kValue = 1, kNext = 2 };

int ask(TVMFFIObject* cursor, Command command, TVMFFIAny* answer) {
  TVMFFIAny argument = {};
  argument.type_index = kTVMFFIInt;
  argument.v_int64 = command;
  return call_object(cursor, &argument, 1, answer);
}

// Keys and values in turn. 0, or -1 with an exception.
int read_all(TVMFFIObject* mapping, Values* values) {
  const bool changes = mapping->type_index == kTVMFFIDict;
  TVMFFIAny argument = {}, size, cursor, answer;
  argument.type_index = mapping->type_index;
  argument.v_obj = mapping;
  if (call_standard(changes ? Standard::kDictSize : Standard::kMapSize, &argument, 1, &size) != 0) return -1;
  if (size.v_int64 == 0) return 0;
  values->reserve(2 * static_cast<size_t>(size.v_int64));
  if (call_standard(changes ? Standard::kDictIterator : Standard::kMapIterator, &argument, 1, &cursor) != 0) {
    return -1;
  }
  OwnedObject owned(cursor.v_obj);
  for (int64_t index = 0; index < size.v_int64; ++index) {
    for (Command part : {kKey, kValue}) {
      if (ask(owned.get(), part, &answer) != 0) return -1;
      values->add(answer);
    }
    if (ask(owned.get(), kNext, &answer) != 0) return -1;
  }
  return 0;
}

PyObject* to_pairs(Values* values, const ResultPolicy& policy) {
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
  try {
    Values values;
    return read_all(handle, &values) != 0 ? nullptr : to_pairs(&values, policy);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

PyMethodDef kMethods[] = {
    {"mapping_items", mapping_items, METH_VARARGS,
     "mapping_items(mapping: Object, objects: str | None) -> list[tuple]\n--\n\n"
     "The pairs that an ffi.Map or ffi.Dict holds now."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_mapping_items(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
