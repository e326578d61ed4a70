// SPDX-License-Identifier: Apache-2.0
//
// An FFI error: plain text for other languages, the exception itself for Python.
#include "python/errors/foreign_error.h"

#include <cstring>
#include <string>

#include "ffi_library.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"

namespace weft {
namespace {

constexpr int kMostCauses = 16;  // of a chain; also ends a loop of causes

TVMFFIByteArray bytes_of(const std::string& text) { return {text.data(), text.size()}; }

// str(object) as UTF-8; `fallback` if it raises.
std::string text_of(PyObject* object, const char* fallback) {
  Reference text(object == nullptr ? nullptr : PyObject_Str(object));
  Reference bytes(text ? PyUnicode_AsEncodedString(text.get(), "utf-8", "surrogateescape") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    return fallback;
  }
  return std::string(PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get())));
}

// One line of a traceback, in the format of libtvm_ffi and the tvm_ffi package.
std::string line_of(PyObject* traceback) {
  Reference frame(PyObject_GetAttrString(traceback, "tb_frame"));
  Reference number(frame ? PyObject_GetAttrString(traceback, "tb_lineno") : nullptr);
  Reference code(number ? PyObject_GetAttrString(frame.get(), "f_code") : nullptr);
  Reference file(code ? PyObject_GetAttrString(code.get(), "co_filename") : nullptr);
  Reference name(file ? PyObject_GetAttrString(code.get(), "co_name") : nullptr);
  if (!name) {
    PyErr_Clear();
    return {};
  }
  return "  File \"" + text_of(file.get(), "?") + "\", line " + text_of(number.get(), "0") + ", in " +
         text_of(name.get(), "?") + "\n";
}

// The most recent call first, as in the ABI.
std::string backtrace_of(PyObject* exception) {
  std::string lines;
  Reference traceback(PyException_GetTraceback(exception));
  while (traceback && traceback.get() != Py_None) {
    lines.insert(0, line_of(traceback.get()));
    traceback.reset(PyObject_GetAttrString(traceback.get(), "tb_next"));
  }
  if (!traceback) PyErr_Clear();
  return lines;
}

// The reason as Python shows it: the explicit cause, else the context, unless suppressed.
PyObject* cause_of(PyObject* exception) {
  PyObject* cause = PyException_GetCause(exception);
  if (cause != nullptr) return cause;
  bool hidden = reinterpret_cast<PyBaseExceptionObject*>(exception)->suppress_context != 0;
  return hidden ? nullptr : PyException_GetContext(exception);
}

TVMFFIObject* build_error(PyObject* exception, int depth) {
  Reference cause(depth < kMostCauses ? cause_of(exception) : nullptr);
  TVMFFIObject* cause_error = cause ? build_error(cause.get(), depth + 1) : nullptr;
  TVMFFIObject* context = make_opaque(exception);
  std::string kind = text_of(kind_of_class(Py_TYPE(exception)), "RuntimeError");
  std::string message = text_of(exception, "an exception whose str() fails");
  std::string backtrace = backtrace_of(exception);
  TVMFFIByteArray kind_bytes = bytes_of(kind);
  TVMFFIByteArray message_bytes = bytes_of(message);
  TVMFFIByteArray backtrace_bytes = bytes_of(backtrace);
  TVMFFIObjectHandle error = nullptr;
  int code = ffi().error_create_with_cause(&kind_bytes, &message_bytes, &backtrace_bytes, cause_error,
                                           context, &error);
  if (cause_error != nullptr) ffi().object_dec_ref(cause_error);
  if (context != nullptr) ffi().object_dec_ref(context);
  if (code == 0) return static_cast<TVMFFIObject*>(error);
  PyErr_NoMemory();
  return nullptr;
}

}  // namespace

TVMFFIObject* make_opaque(PyObject* object) {
  auto drop = [](void* held) { drop_anywhere(static_cast<PyObject*>(held)); };
  TVMFFIObjectHandle handle = nullptr;
  Py_INCREF(object);
  int code = ffi().object_create_opaque(object, kTVMFFIOpaquePyObject, drop, &handle);
  if (code == 0) return static_cast<TVMFFIObject*>(handle);
  Py_DECREF(object);
  raise_ffi_error(code);
  return nullptr;
}

TVMFFIObject* error_of_exception(PyObject* exception) { return build_error(exception, 0); }

int raise_into_ffi() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Reference owned_type(type), owned_value(value), owned_traceback(traceback);
  TVMFFIObject* error = error_of_exception(value);
  if (error == nullptr) {
    PyErr_Clear();
    return raise_text_into_ffi("MemoryError", "no memory to describe a Python exception");
  }
  ffi().error_set_raised(error);
  ffi().object_dec_ref(error);
  return -1;
}

int raise_text_into_ffi(const char* kind, const char* message) {
  TVMFFIByteArray kind_bytes{kind, std::strlen(kind)};
  TVMFFIByteArray message_bytes{message, std::strlen(message)};
  TVMFFIByteArray nothing{"", 0};
  TVMFFIObjectHandle error = nullptr;
  if (ffi().error_create(&kind_bytes, &message_bytes, &nothing, &error) == 0) {
    ffi().error_set_raised(error);
    ffi().object_dec_ref(error);
  }
  return -1;
}

}  // namespace weft
