// SPDX-License-Identifier: Apache-2.0
//
// Interned names, and attributes of modules that are already imported.
#include "python/common.h"

#include <cstdarg>

namespace weft {

Names g_names;

int prepare_names() {
#define WEFT_NAME(name)                                                          \
  if (g_names.name == nullptr) g_names.name = PyUnicode_InternFromString(#name); \
  if (g_names.name == nullptr) return -1;
  WEFT_NAMES(WEFT_NAME)
#undef WEFT_NAME
  return 0;
}

PyObject* imported_module(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return modules == nullptr ? nullptr : PyDict_GetItemString(modules, name);
}

PyObject* imported_attribute(const char* module, const char* attribute) {
  PyObject* found = imported_module(module);
  if (found == nullptr) return nullptr;
  PyObject* value = PyObject_GetAttrString(found, attribute);
  if (value == nullptr) PyErr_Clear();
  return value;
}

bool is_instance_of_imported(PyObject* object, const char* module, const char* attribute) {
  Reference type(imported_attribute(module, attribute));
  if (!type || !PyType_Check(type.get())) return false;
  return PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(type.get())) != 0;
}

bool holds_the_gil() {
  const PyThreadState* mine = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return mine != nullptr && mine == PyThreadState_GetUnchecked();
#else
  return mine != nullptr && mine == _PyThreadState_UncheckedGet();
#endif
}

void wait_unless_held() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool ends = Py_IsFinalizing() != 0;
#else
  const bool ends = _Py_IsFinalizing() != 0;
#endif
  while (WEFT_UNLIKELY(ends && !holds_the_gil())) pause();
}

int refuse(PyObject* exception_type, const char* format, ...) {
  va_list values;
  va_start(values, format);
  PyErr_FormatV(exception_type, format, values);
  va_end(values);
  return -1;
}

}  // namespace weft
