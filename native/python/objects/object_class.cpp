// SPDX-License-Identifier: Apache-2.0
//
// Which Python class wraps the objects of an FFI type. The table of standard types is in weft.ffi.object,
// read when one is first met; programs add classes for their own types and types derived from them.
#include "ffi_library.h"
#include "module.h"
#include "python/objects/object.h"

namespace weft {
namespace {

PyObject* g_registered = nullptr;  // dict from type index to class, as registered by the program
PyObject* g_resolved = nullptr;    // dict from type index to class, cached

// weft.ffi.object.standard_class(type_index): a class, or None if the table has no row.
PyObject* standard_class(PyObject* index) {
  Reference module(PyImport_ImportModule("weft.ffi.object"));
  return module ? PyObject_CallMethod(module.get(), "standard_class", "O", index) : nullptr;
}

// The row of one index in either table, as a new reference; None if there is none.
PyObject* own_class(int32_t type_index) {
  Reference index(PyLong_FromLong(type_index));
  if (!index) return nullptr;
  PyObject* found = PyDict_GetItemWithError(g_registered, index.get());
  if (found != nullptr) return Py_NewRef(found);
  return PyErr_Occurred() ? nullptr : standard_class(index.get());
}

// The type's own class, or that of its nearest ancestor; every type descends from ffi.Object, which has one.
PyObject* resolve(int32_t type_index) {
  PyObject* found = own_class(type_index);
  const TVMFFITypeInfo* info = find_type_info(type_index);
  for (int32_t depth = info == nullptr ? 0 : info->type_depth; found == Py_None && depth-- > 0;) {
    Py_DECREF(found);
    found = own_class(info->type_ancestors[depth]->type_index);
  }
  if (found != Py_None) return found;
  Py_DECREF(found);
  return own_class(kTVMFFIObject);
}

PyObject* set_object_class(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  bool is_class = count == 2 && PyLong_Check(arguments[0]) && PyType_Check(arguments[1]) &&
                  is_object_type(reinterpret_cast<PyTypeObject*>(arguments[1]));
  if (!is_class) {
    PyErr_SetString(PyExc_TypeError, "set_object_class takes a type index and a subclass of weft.ffi.Object");
    return nullptr;
  }
  if (PyDict_SetItem(g_registered, arguments[0], arguments[1]) != 0) return nullptr;
  PyDict_Clear(g_resolved);  // derived types may have cached an ancestor's class
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"set_object_class", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_object_class)),
     METH_FASTCALL,
     "set_object_class(type_index: int, object_class: type[Object]) -> None\n--\n\n"
     "Objects of this type, and of types derived from it, are wrapped in the class from now on."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject* class_of_index(int32_t type_index) {
  Reference index(PyLong_FromLong(type_index));
  if (!index) return nullptr;
  PyObject* known = PyDict_GetItemWithError(g_resolved, index.get());
  if (WEFT_LIKELY(known != nullptr)) return reinterpret_cast<PyTypeObject*>(known);
  if (PyErr_Occurred()) return nullptr;
  Reference found(resolve(type_index));
  if (!found) return nullptr;
  if (!PyType_Check(found.get()) || !is_object_type(reinterpret_cast<PyTypeObject*>(found.get()))) {
    PyErr_Format(PyExc_SystemError, "%R is not a class for FFI objects", found.get());
    return nullptr;
  }
  // The dict keeps the class, so a borrowed pointer is safe.
  if (PyDict_SetItem(g_resolved, index.get(), found.get()) != 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(found.get());
}

PyObject* type_key_of_index(int32_t type_index) {
  const TVMFFITypeInfo* info = find_type_info(type_index);
  if (info == nullptr) return PyUnicode_FromFormat("type %d", type_index);
  return PyUnicode_FromStringAndSize(info->type_key.data, static_cast<Py_ssize_t>(info->type_key.size));
}

int add_object_classes(PyObject* module) {
  if (g_registered == nullptr) g_registered = PyDict_New();
  if (g_resolved == nullptr) g_resolved = PyDict_New();
  if (g_registered == nullptr || g_resolved == nullptr) return -1;
  return PyModule_AddFunctions(module, kMethods);
}

}  // namespace weft
