// SPDX-License-Identifier: Apache-2.0
//
// Looked up once each: libtvm_ffi never unregisters them.
#include "python/callbacks/standard_function.h"

#include <cstring>

#include "ffi_library.h"
#include "python/errors/ffi_error.h"

namespace weft {
namespace {

constexpr const char* kNames[] = {
#define WEFT_ROW(name, text) text,
    WEFT_STANDARD_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
};

TVMFFIObject* g_found[static_cast<size_t>(Standard::kCount)] = {};

TVMFFIObject* find_standard(Standard which) {
  TVMFFIObject*& found = g_found[static_cast<size_t>(which)];
  if (WEFT_LIKELY(found != nullptr)) return found;
  const char* name = kNames[static_cast<size_t>(which)];
  TVMFFIByteArray bytes{name, std::strlen(name)};
  TVMFFIObjectHandle handle = nullptr;
  int code = ffi().function_get_global(&bytes, &handle);
  if (code != 0) raise_ffi_error(code);
  if (code == 0 && handle == nullptr) PyErr_Format(PyExc_SystemError, "libtvm_ffi has no function %s", name);
  found = static_cast<TVMFFIObject*>(handle);
  return found;
}

struct StoringFunction {
  const char* name;
  Storing how;
  const void* handle;
};

StoringFunction g_storing[] = {
    {"ffi.Array", Storing::kAlone, nullptr},
    {"ffi.Map", Storing::kAlone, nullptr},
    {"ffi.List", Storing::kShared, nullptr},
    {"ffi.ListAppend", Storing::kShared, nullptr},
    {"ffi.ListInsert", Storing::kShared, nullptr},
    {"ffi.ListReplaceSlice", Storing::kShared, nullptr},
    {"ffi.ListSetItem", Storing::kShared, nullptr},
    {"ffi.Dict", Storing::kShared, nullptr},
    {"ffi.DictSetItem", Storing::kShared, nullptr},
    {"ffi.MakeObjectFromPackedArgs", Storing::kShared, nullptr},
};

// Each is looked up once; the registry keeps it.
void find_storing_functions() {
  for (StoringFunction& row : g_storing) {
    TVMFFIByteArray bytes{row.name, std::strlen(row.name)};
    TVMFFIObjectHandle handle = nullptr;
    if (ffi().function_get_global(&bytes, &handle) == 0) row.handle = handle;
  }
}

}  // namespace

Storing is_storing(const TVMFFIObject* function) {
  static bool found = (find_storing_functions(), true);
  for (const StoringFunction& row : g_storing) {
    if (found && row.handle == function) return row.how;
  }
  return Storing::kNot;
}

int call_object(TVMFFIObject* function, const TVMFFIAny* arguments, Py_ssize_t count, TVMFFIAny* result) {
  *result = {};
  int code =
      ffi().function_call(function, const_cast<TVMFFIAny*>(arguments), static_cast<int32_t>(count), result);
  if (WEFT_LIKELY(code == 0)) return 0;
  raise_ffi_error(code);
  return -1;
}

int call_standard(Standard which, const TVMFFIAny* arguments, Py_ssize_t count, TVMFFIAny* result) {
  TVMFFIObject* function = find_standard(which);
  return function == nullptr ? -1 : call_object(function, arguments, count, result);
}

}  // namespace weft
