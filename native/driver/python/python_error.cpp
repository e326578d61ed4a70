// SPDX-License-Identifier: Apache-2.0
//
// Driver errors as Python exceptions.
#include "driver/python/python_error.h"

namespace weft {

// The text may hold a path, whose bytes need not be UTF-8.
static PyObject* message_of(const DriverError& error) {
  return PyUnicode_DecodeUTF8(error.message.data(), static_cast<Py_ssize_t>(error.message.size()),
                              "surrogateescape");
}

PyObject* make_cuda_error(const DriverError& error) {
  PyObject* module = PyImport_ImportModule("weft.errors");
  if (module == nullptr) return nullptr;
  PyObject* message = message_of(error);
  PyObject* made = nullptr;
  if (message != nullptr) {
    made = PyObject_CallMethod(module, "CudaError", "Oissss", message, error.code, error.name.c_str(),
                               error.function.c_str(), error.kernel.c_str(), error.configuration.c_str());
  }
  Py_XDECREF(message);
  Py_DECREF(module);
  return made;
}

PyObject* set_python_error(const DriverError& error) {
  PyObject* type = PyExc_RuntimeError;
  if (error.kind == ErrorKind::kValue) type = PyExc_ValueError;
  if (error.kind == ErrorKind::kType) type = PyExc_TypeError;
  if (error.kind == ErrorKind::kMemory) type = PyExc_MemoryError;
  const bool is_cuda = error.kind == ErrorKind::kCuda;
  PyObject* value = is_cuda ? make_cuda_error(error) : message_of(error);
  if (value == nullptr) return nullptr;
  PyErr_SetObject(is_cuda ? reinterpret_cast<PyObject*>(Py_TYPE(value)) : type, value);
  Py_DECREF(value);
  return nullptr;
}

}  // namespace weft
