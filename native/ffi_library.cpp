// SPDX-License-Identifier: Apache-2.0
//
// Opens libtvm_ffi and checks that it is the ABI the extension was built against.
#include "ffi_library.h"

#include <dlfcn.h>

#include <csignal>

#include "module.h"
#include "python/readers/environment.h"

namespace weft {

// The marshaller's assumptions beyond the signatures.
static_assert(sizeof(TVMFFIAny) == 16 && offsetof(TVMFFIAny, v_int64) == 8, "TVMFFIAny is two words");
static_assert(sizeof(TVMFFIObject) == 24 && offsetof(TVMFFIObject, type_index) == 8 &&
                  offsetof(TVMFFIObject, deleter) == 16,
              "an object's header is three words");
static_assert(offsetof(TVMFFIFunctionCell, safe_call) == 0 && sizeof(TVMFFIFunctionCell) == 16,
              "a function starts with safe_call");
static_assert(sizeof(TVMFFIByteArray) == 16 && sizeof(DLTensor) == 48 && sizeof(DLDataType) == 4,
              "plain data of the FFI ABI");
static_assert(kTVMFFIDLTensorPtr == 7 && kTVMFFIFunction == 68 && kTVMFFITensor == 70 && kTVMFFIArray == 71 &&
                  kTVMFFIBigInt == 78,
              "type indices");

std::string open_ffi_library(const char* path) {
  if (g_ffi_library.is_open) return {};
  // Loading the library takes over SIGSEGV, and with it faulthandler's traceback.
  struct sigaction before = {};
  const bool known = sigaction(SIGSEGV, nullptr, &before) == 0;
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (known) sigaction(SIGSEGV, &before, nullptr);
  if (handle == nullptr) return std::string("cannot open libtvm_ffi: ") + dlerror();
  FfiLibrary library;
#define WEFT_ROW(member, symbol)                                                       \
  library.member = reinterpret_cast<decltype(library.member)>(dlsym(handle, #symbol)); \
  if (library.member == nullptr) {                                                     \
    return std::string(path) + " has no function " #symbol "; upgrade apache-tvm-ffi"; \
  }
  WEFT_FFI_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
  TVMFFIVersion version{};
  library.get_version(&version);
  if (version.major != TVM_FFI_VERSION_MAJOR || version.minor < TVM_FFI_VERSION_MINOR) {
    return std::string(path) + " is version " + std::to_string(version.major) + "." +
           std::to_string(version.minor) + "; weft was built for version " +
           std::to_string(TVM_FFI_VERSION_MAJOR) + "." + std::to_string(TVM_FFI_VERSION_MINOR);
  }
  library.is_open = true;
  g_ffi_library = library;
  prepare_environment();
  return {};
}

namespace {

PyObject* open_library(PyObject*, PyObject* path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path, &bytes) == 0) return nullptr;
  const std::string text = PyBytes_AS_STRING(bytes);
  Py_DECREF(bytes);
  std::string problem = open_ffi_library(text.c_str());
  if (!problem.empty()) {
    PyObject* message = PyUnicode_DecodeFSDefault(problem.c_str());
    if (message != nullptr) PyErr_SetObject(PyExc_ImportError, message);
    Py_XDECREF(message);
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* library_is_open(PyObject*, PyObject*) { return PyBool_FromLong(ffi().is_open); }

PyMethodDef kMethods[] = {
    {"open_ffi_library", open_library, METH_O,
     "open_ffi_library(path: str) -> None\n--\n\nOpens libtvm_ffi; ImportError says why it cannot be used."},
    {"ffi_library_is_open", library_is_open, METH_NOARGS,
     "ffi_library_is_open() -> bool\n--\n\nWhether libtvm_ffi has been opened."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_ffi_library(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
