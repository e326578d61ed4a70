// SPDX-License-Identifier: Apache-2.0
//
// Handles cross to the tvm_ffi package as addresses, through one C function that returns the object at an
// address: it uses only the ABI, no internals of the package.
#include "python/values/interop.h"

#include <cstdlib>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"

namespace weft {
namespace {

// Safe call: takes an address as an int and returns the object there, whose reference it takes over.
int adopt_object(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  if (count != 1 || arguments[0].type_index != kTVMFFIInt) return -2;
  auto* object = reinterpret_cast<TVMFFIObject*>(arguments[0].v_int64);
  result->type_index = object->type_index;
  result->zero_padding = 0;
  result->v_obj = object;
  return 0;
}

// A TVMFFIFunction over weft's code: a function object of the ABI, followed by the code's handle and owner.
struct CodeExport {
  uint64_t allocator_words[2];  // libtvm_ffi's own allocator puts two words before an object
  TVMFFIObject object;
  TVMFFIFunctionCell cell;  // `cpp_call` stays NULL
  TVMFFISafeCallType safe_call;
  void* handle;
  PyObject* owner;
};
static_assert(offsetof(CodeExport, cell) == offsetof(CodeExport, object) + sizeof(TVMFFIObject),
              "a function object is a header and its cell");

CodeExport* export_of(void* object) {
  return reinterpret_cast<CodeExport*>(static_cast<char*>(object) - offsetof(CodeExport, object));
}

int call_export(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  const CodeExport* exported = export_of(self);
  return exported->safe_call(exported->handle, arguments, count, result);
}

// On any thread, with or without the GIL, even after the interpreter has ended.
void delete_export(void* self, int flags) {
  CodeExport* exported = export_of(self);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) drop_anywhere(exported->owner);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) std::free(exported);
}

PyObject* g_adopter = nullptr;  // tvm_ffi's function over adopt_object

PyObject* adopter() {
  if (g_adopter != nullptr) return g_adopter;
  PyObject* type = imported_attribute("tvm_ffi.core", "Function");
  Reference owned(type);
  if (type == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "the tvm_ffi package is not imported");
    return nullptr;
  }
  g_adopter = PyObject_CallMethod(type, "__from_extern_c__", "N",
                                  PyLong_FromVoidPtr(reinterpret_cast<void*>(&adopt_object)));
  return g_adopter;
}

}  // namespace

PyObject* to_foreign_object(TVMFFIObject* object) {
  PyObject* convert = adopter();
  if (convert == nullptr) return nullptr;
  Reference address(PyLong_FromVoidPtr(object));
  if (!address) return nullptr;
  ffi().object_inc_ref(object);
  PyObject* foreign = PyObject_CallOneArg(convert, address.get());
  if (foreign == nullptr) ffi().object_dec_ref(object);
  return foreign;
}

TVMFFIObject* handle_of_foreign(PyObject* object) {
  Reference handle(PyObject_CallMethodNoArgs(object, g_names.__chandle__));
  if (!handle) return nullptr;
  auto* pointer = static_cast<TVMFFIObject*>(PyLong_AsVoidPtr(handle.get()));
  if (pointer == nullptr && !PyErr_Occurred()) {
    PyErr_Format(PyExc_ValueError, "%s has been moved from and holds no object", Py_TYPE(object)->tp_name);
  }
  return pointer;
}

TVMFFIObject* function_object(const Function& function) {
  if (function.object != nullptr) {
    ffi().object_inc_ref(function.object);
    return function.object;
  }
  auto* exported = static_cast<CodeExport*>(std::calloc(1, sizeof(CodeExport)));
  if (exported == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  exported->object.combined_ref_count = (uint64_t{1} << 32) | 1;  // one strong, and the weak one it implies
  exported->object.type_index = kTVMFFIFunction;
  exported->object.deleter = delete_export;
  exported->cell.safe_call = call_export;
  exported->safe_call = function.safe_call;
  exported->handle = function.handle;
  exported->owner = Py_XNewRef(function.owner);
  return &exported->object;
}

}  // namespace weft
