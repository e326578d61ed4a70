// SPDX-License-Identifier: Apache-2.0
//
// Error kinds and exception classes. A Python exception comes back as the same object when it travels in the
// error's extra context; an error may also name a registered class there, with the values of its other
// arguments.
#include "python/errors/ffi_error.h"

#include <cstring>

#include "ffi_library.h"
#include "module.h"
#include "python/objects/object.h"
#include "python/results/result.h"

namespace weft {
namespace {

PyObject* g_kinds = nullptr;    // dict from kind to class
PyObject* g_classes = nullptr;  // dict from class to kind

const TVMFFIErrorCell* cell_of(TVMFFIObjectHandle error) {
  return reinterpret_cast<const TVMFFIErrorCell*>(static_cast<const TVMFFIObject*>(error) + 1);
}

PyObject* build_exception(TVMFFIObjectHandle error, int depth);

bool equals(const TVMFFIByteArray& text, const char* word) {
  return std::strlen(word) == text.size && std::memcmp(text.data, word, text.size) == 0;
}

PyObject* text_of(const TVMFFIByteArray& bytes) {
  return PyUnicode_DecodeUTF8(bytes.data, static_cast<Py_ssize_t>(bytes.size), "replace");
}

// Borrowed; RuntimeError for unregistered kinds.
PyObject* class_of_kind(const TVMFFIByteArray& kind) {
  const struct {
    const char* name;
    PyObject* type;
  } common[] = {
      {"RuntimeError", PyExc_RuntimeError}, {"ValueError", PyExc_ValueError}, {"TypeError", PyExc_TypeError}};
  for (const auto& row : common) {
    if (equals(kind, row.name)) return row.type;
  }
  Reference name(text_of(kind));
  if (!name) return nullptr;
  PyObject* found = PyDict_GetItemWithError(g_kinds, name.get());
  if (found != nullptr || PyErr_Occurred()) return found;
  return PyExc_RuntimeError;
}

// [name, values...]: the class registered under `name`, called with the message and the values.
PyObject* build_registered(const TVMFFIErrorCell& cell, PyObject* message) {
  auto* context = static_cast<TVMFFIObject*>(cell.extra_context);
  if (context == nullptr || context->type_index != kTVMFFIArray) return nullptr;
  TVMFFIAny value = {};
  value.type_index = kTVMFFIArray;
  value.v_obj = context;
  Reference values(view_to_python(value, ResultPolicy()));
  if (!values || !PyTuple_Check(values.get()) || PyTuple_GET_SIZE(values.get()) == 0) return nullptr;
  PyObject* type = PyDict_GetItem(g_kinds, PyTuple_GET_ITEM(values.get(), 0));
  if (type == nullptr) return nullptr;
  Reference arguments(PyTuple_GetSlice(values.get(), 1, PyTuple_GET_SIZE(values.get())));
  Reference first(PyTuple_Pack(1, message));
  if (!arguments || !first) return nullptr;
  Reference all(PySequence_Concat(first.get(), arguments.get()));
  return all ? PyObject_Call(type, all.get(), nullptr) : nullptr;
}

PyObject* original_exception(const TVMFFIErrorCell& cell) {
  auto* context = static_cast<TVMFFIObject*>(cell.extra_context);
  if (context == nullptr || context->type_index != kTVMFFIOpaquePyObject) return nullptr;
  auto* opaque = reinterpret_cast<TVMFFIOpaqueObjectCell*>(context + 1);
  auto* object = static_cast<PyObject*>(opaque->handle);
  return PyExceptionInstance_Check(object) ? Py_NewRef(object) : nullptr;
}

// The native frames, as a note below the Python traceback: libtvm_ffi stores the most recent call first.
PyObject* note_of_backtrace(const TVMFFIByteArray& backtrace) {
  Reference text(text_of(backtrace));
  Reference lines(text ? PyUnicode_Splitlines(text.get(), 0) : nullptr);
  if (!lines || PyList_Reverse(lines.get()) != 0) return nullptr;
  Reference newline(PyUnicode_FromString("\n"));
  Reference joined(newline ? PyUnicode_Join(newline.get(), lines.get()) : nullptr);
  return joined ? PyUnicode_FromFormat("Foreign traceback (most recent call last):\n%U", joined.get())
                : nullptr;
}

// The error itself, its native frames and its cause. Failures here must not hide the error being raised.
void add_details(PyObject* exception, TVMFFIObjectHandle error, int depth) {
  const TVMFFIErrorCell& cell = *cell_of(error);
  if (cell.backtrace.size == 0 && cell.cause_chain == nullptr && cell.extra_context == nullptr) return;
  ffi().object_inc_ref(error);
  Reference wrapped(own_object(static_cast<TVMFFIObject*>(error)));
  if (wrapped) PyObject_SetAttrString(exception, "__ffi_error__", wrapped.get());
  PyErr_Clear();
  Reference note(cell.backtrace.size == 0 ? nullptr : note_of_backtrace(cell.backtrace));
  Reference added(note ? PyObject_CallMethodOneArg(exception, g_names.add_note, note.get()) : nullptr);
  PyErr_Clear();
  constexpr int kMostCauses = 16;
  if (cell.cause_chain == nullptr || depth >= kMostCauses) return;
  PyObject* cause = build_exception(cell.cause_chain, depth + 1);
  if (cause != nullptr) PyException_SetCause(exception, cause);  // takes over the reference
  PyErr_Clear();
}

PyObject* register_error_kind(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyUnicode_Check(arguments[0]) || !PyExceptionClass_Check(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "register_error_kind takes a name and an exception class");
    return nullptr;
  }
  if (PyDict_SetItem(g_kinds, arguments[0], arguments[1]) != 0) return nullptr;
  if (PyDict_SetItem(g_classes, arguments[1], arguments[0]) != 0) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"register_error_kind", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(register_error_kind)),
     METH_FASTCALL,
     "register_error_kind(name: str, exception_class: type[BaseException]) -> None\n--\n\n"
     "Errors of this kind, or whose extra context is an array that begins with this name, are raised as\n"
     "the class. It is called with the message and, in the second case, the array's other values."},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* build_exception(TVMFFIObjectHandle error, int depth) {
  const TVMFFIErrorCell& cell = *cell_of(error);
  PyObject* exception = original_exception(cell);
  if (exception != nullptr) return exception;
  Reference message(text_of(cell.message));
  if (!message) return nullptr;
  exception = cell.extra_context == nullptr ? nullptr : build_registered(cell, message.get());
  PyErr_Clear();  // a context that the class does not accept must not hide the error
  if (exception == nullptr) {
    PyObject* type = class_of_kind(cell.kind);
    exception = type == nullptr ? nullptr : PyObject_CallOneArg(type, message.get());
  }
  if (exception != nullptr) add_details(exception, error, depth);
  return exception;
}

}  // namespace

PyObject* exception_of_error(TVMFFIObjectHandle error) { return build_exception(error, 0); }

PyObject* kind_of_class(PyTypeObject* type) {
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(type->tp_mro); ++index) {
    PyObject* kind = PyDict_GetItem(g_classes, PyTuple_GET_ITEM(type->tp_mro, index));
    if (kind != nullptr) return kind;
  }
  return nullptr;
}

PyObject* raise_ffi_error(int code) {
  if (code == -2 && PyErr_Occurred()) return nullptr;
  TVMFFIObjectHandle error = nullptr;
  ffi().error_move_from_raised(&error);
  if (error == nullptr) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_SystemError, "a function returned %d without an error", code);
    return nullptr;
  }
  if (equals(cell_of(error)->kind, "EnvErrorAlreadySet") && PyErr_Occurred()) {
    ffi().object_dec_ref(error);
    return nullptr;
  }
  PyErr_Clear();
  Reference exception(exception_of_error(error));
  ffi().object_dec_ref(error);
  if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return nullptr;
}

void name_argument(PyObject* signature, Py_ssize_t index, PyObject* parameter, PyObject* path) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Reference place(parameter != nullptr
                      ? PyUnicode_FromFormat("%U: argument #%zd '%U'", signature, index, parameter)
                  : path != nullptr ? PyUnicode_FromFormat("%U: argument #%zd%U", signature, index, path)
                                    : PyUnicode_FromFormat("%U: argument #%zd", signature, index));
  bool ours = traceback == nullptr &&
              (type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError);
  Reference text(place && ours ? PyUnicode_FromFormat("%U: %S", place.get(), value) : nullptr);
  Reference renamed(text ? PyObject_CallOneArg(type, text.get()) : nullptr);
  if (renamed) {
    PyException_SetCause(renamed.get(), PyException_GetCause(value));
    Py_DECREF(value);
    value = renamed.release();
  } else if (place) {
    Reference note(PyObject_CallMethodOneArg(value, g_names.add_note, place.get()));
    PyErr_Clear();
  }
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  PyErr_Restore(type, value, traceback);
}

int add_ffi_errors(PyObject* module) {
  if (g_kinds == nullptr) {
    g_kinds = PyDict_New();
    g_classes = PyDict_New();
    if (g_kinds == nullptr || g_classes == nullptr) return -1;
    PyObject* builtin[] = {
        PyExc_RuntimeError,        PyExc_ValueError,     PyExc_TypeError,         PyExc_SystemError,
        PyExc_RecursionError,      PyExc_SystemExit,     PyExc_FileNotFoundError, PyExc_PermissionError,
        PyExc_IndexError,          PyExc_KeyError,       PyExc_AttributeError,    PyExc_MemoryError,
        PyExc_NotImplementedError, PyExc_AssertionError, PyExc_OverflowError,     PyExc_ZeroDivisionError,
        PyExc_StopIteration,       PyExc_ImportError,    PyExc_OSError,           PyExc_TimeoutError,
        PyExc_BufferError,         PyExc_NameError,      PyExc_KeyboardInterrupt, PyExc_ArithmeticError,
        PyExc_LookupError,         PyExc_UnicodeError};
    for (PyObject* type : builtin) {
      Reference name(PyObject_GetAttr(type, g_names.__name__));
      if (!name || PyDict_SetItem(g_kinds, name.get(), type) != 0) return -1;
      if (PyDict_SetItem(g_classes, type, name.get()) != 0) return -1;
    }
  }
  return PyModule_AddFunctions(module, kMethods);
}

}  // namespace weft
