// SPDX-License-Identifier: Apache-2.0
//
// Global functions by name: libtvm_ffi's one table, shared with the tvm_ffi package and C++ programs.
#include <cstring>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/callbacks/callback.h"
#include "python/errors/ffi_error.h"
#include "python/values/encode/encode.h"
#include "python/values/interop.h"

namespace weft {
namespace {

// The UTF-8 of a name; false with an exception.
bool read_name(PyObject* name, TVMFFIByteArray* bytes) {
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "expected a function's name as str, received %s", Py_TYPE(name)->tp_name);
    return false;
  }
  Py_ssize_t size;
  bytes->data = PyUnicode_AsUTF8AndSize(name, &size);
  bytes->size = static_cast<size_t>(size);
  return bytes->data != nullptr;
}

PyObject* get_global(PyObject*, PyObject* name) {
  TVMFFIByteArray bytes;
  if (!read_name(name, &bytes) || require_library() != 0) return nullptr;
  TVMFFIObjectHandle handle = nullptr;
  int code = ffi().function_get_global(&bytes, &handle);
  if (code != 0) return raise_ffi_error(code);
  if (handle == nullptr) Py_RETURN_NONE;
  PyObject* function = function_of_object(static_cast<TVMFFIObject*>(handle));
  if (function == nullptr) return nullptr;
  reinterpret_cast<Function*>(function)->label = Py_NewRef(name);
  // libtvm_ffi's own functions do not write into arrays, though some share their arguments.
  const bool is_standard = bytes.size > 4 && std::memcmp(bytes.data, "ffi.", 4) == 0;
  if (is_standard && !reinterpret_cast<Function*>(function)->keeps) {
    reinterpret_cast<Function*>(function)->writer = Writer::kNobody;
  }
  return function;
}

PyObject* set_global(PyObject*, PyObject* arguments) {
  PyObject *name, *function;
  int override;
  TVMFFIByteArray bytes;
  if (!PyArg_ParseTuple(arguments, "OO!p:set_global", &name, function_type(), &function, &override) ||
      !read_name(name, &bytes)) {
    return nullptr;
  }
  TVMFFIObject* object = function_object(*reinterpret_cast<Function*>(function));
  if (object == nullptr) return nullptr;
  int code = ffi().function_set_global(&bytes, object, override);
  ffi().object_dec_ref(object);
  if (code != 0) return raise_ffi_error(code);
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"get_global", get_global, METH_O,
     "get_global(name: str) -> Function | None\n--\n\nThe global function of that name."},
    {"set_global", set_global, METH_VARARGS,
     "set_global(name: str, function: Function, override: bool) -> None\n--\n\n"
     "Registers a global function; RuntimeError if it exists and `override` is false."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_registry(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
