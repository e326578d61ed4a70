// SPDX-License-Identifier: Apache-2.0
//
// Errors as values: the native half of weft.ffi.Error.
#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/errors/ffi_error.h"
#include "python/errors/foreign_error.h"
#include "python/objects/object.h"
#include "python/objects/owned_object.h"
#include "python/results/result.h"

namespace weft {
namespace {

// The handle of an Object that is an error; nullptr with an exception.
TVMFFIObject* require_error(PyObject* object) {
  if (!is_object_type(Py_TYPE(object))) {
    PyErr_Format(PyExc_TypeError, "expected an FFI error, received %s", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  TVMFFIObject* handle = handle_of_object(object);
  if (handle == nullptr || handle->type_index == kTVMFFIError) return handle;
  PyErr_Format(PyExc_TypeError, "%R is not an error", object);
  return nullptr;
}

PyObject* error_text(PyObject*, PyObject* arguments) {
  PyObject* object;
  int which;
  if (!PyArg_ParseTuple(arguments, "Oi:error_text", &object, &which)) return nullptr;
  TVMFFIObject* handle = require_error(object);
  if (handle == nullptr) return nullptr;
  const auto* cell = contents<TVMFFIErrorCell>(handle);
  const TVMFFIByteArray& text = which == 0 ? cell->kind : which == 1 ? cell->message : cell->backtrace;
  return PyUnicode_DecodeUTF8(text.data, static_cast<Py_ssize_t>(text.size), "replace");
}

PyObject* error_detail(PyObject*, PyObject* arguments) {
  PyObject* object;
  int context;
  if (!PyArg_ParseTuple(arguments, "Op:error_detail", &object, &context)) return nullptr;
  TVMFFIObject* handle = require_error(object);
  if (handle == nullptr) return nullptr;
  const auto* cell = contents<TVMFFIErrorCell>(handle);
  auto* detail = static_cast<TVMFFIObject*>(context ? cell->extra_context : cell->cause_chain);
  if (detail == nullptr) Py_RETURN_NONE;
  TVMFFIAny value = {};
  value.type_index = detail->type_index;
  value.v_obj = detail;
  ResultPolicy policy;
  if (!context) policy.objects = ObjectMode::kObjects;  // a cause stays an error
  return view_to_python(value, policy);
}

PyObject* exception_of(PyObject*, PyObject* object) {
  TVMFFIObject* handle = require_error(object);
  return handle == nullptr ? nullptr : exception_of_error(handle);
}

PyObject* error_of(PyObject*, PyObject* exception) {
  if (!PyExceptionInstance_Check(exception)) {
    PyErr_Format(PyExc_TypeError, "expected an exception, received %s", Py_TYPE(exception)->tp_name);
    return nullptr;
  }
  TVMFFIObject* error = error_of_exception(exception);
  return error == nullptr ? nullptr : own_object(error);
}

PyObject* make_error(PyObject*, PyObject* arguments) {
  TVMFFIByteArray kind, message, backtrace;
  Py_ssize_t sizes[3];
  PyObject* cause;
  if (!PyArg_ParseTuple(arguments, "s#s#s#O:make_error", &kind.data, &sizes[0], &message.data, &sizes[1],
                        &backtrace.data, &sizes[2], &cause) ||
      require_library() != 0) {
    return nullptr;
  }
  kind.size = static_cast<size_t>(sizes[0]);
  message.size = static_cast<size_t>(sizes[1]);
  backtrace.size = static_cast<size_t>(sizes[2]);
  TVMFFIObject* led = cause == Py_None ? nullptr : require_error(cause);
  if (led == nullptr && cause != Py_None) return nullptr;
  TVMFFIObjectHandle error = nullptr;
  if (ffi().error_create_with_cause(&kind, &message, &backtrace, led, nullptr, &error) != 0) {
    return PyErr_NoMemory();
  }
  return own_object(static_cast<TVMFFIObject*>(error));
}

PyMethodDef kMethods[] = {
    {"make_error", make_error, METH_VARARGS,
     "make_error(kind: str, message: str, backtrace: str, cause) -> Object\n--\n\n"
     "A new FFI error; the cause is another one, kept referenced, or None."},
    {"error_text", error_text, METH_VARARGS,
     "error_text(error, which: int) -> str\n--\n\nIts kind (0), message (1) or backtrace (2)."},
    {"error_detail", error_detail, METH_VARARGS,
     "error_detail(error, context: bool)\n--\n\nThe attached context, or the error that led to it; or "
     "None."},
    {"exception_of_error", exception_of, METH_O,
     "exception_of_error(error) -> BaseException\n--\n\nThe exception raised for it."},
    {"error_of_exception", error_of, METH_O,
     "error_of_exception(exception) -> Object\n--\n\nAn FFI error that carries the exception."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_error_values(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
