// SPDX-License-Identifier: Apache-2.0
//
// Whether the places in a program's state that a compilation has read hold the same objects still: on each
// direct call, so in C, by identity.
#include "python/call/unchanged.h"

#include "module.h"

namespace weft {
namespace {

// What stands at a place of one object: a new reference; nullptr without an exception if there is nothing.
PyObject* found_at(long kind, PyObject* owner, PyObject* name) {
  switch (kind) {
    case kItem:
      return PyDict_Check(owner) ? Py_XNewRef(PyDict_GetItemWithError(owner, name)) : nullptr;
    case kCell:
      return PyCell_Check(owner) ? PyCell_Get(owner) : nullptr;
    case kMember:
      // Borrowed, and without running a descriptor; inherited members too.
      return PyType_Check(owner) ? Py_XNewRef(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name))
                                 : nullptr;
    default:
      break;
  }
  PyObject* found = PyObject_GetAttr(owner, name);
  if (found == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return found;
}

bool is_function_same(PyObject* function, PyObject* place) {
  if (!PyFunction_Check(function) || PyTuple_GET_SIZE(place) != 6) return false;
  PyObject* defaults = PyFunction_GetDefaults(function);
  PyObject* keyword_defaults = PyFunction_GetKwDefaults(function);
  return PyFunction_GetCode(function) == PyTuple_GET_ITEM(place, 3) &&
         (defaults == nullptr ? Py_None : defaults) == PyTuple_GET_ITEM(place, 4) &&
         (keyword_defaults == nullptr ? Py_None : keyword_defaults) == PyTuple_GET_ITEM(place, 5);
}

}  // namespace

long kind_of_place(PyObject* place) {
  const bool is_place = PyTuple_Check(place) && PyTuple_GET_SIZE(place) >= 3;
  const long kind = is_place ? PyLong_AsLong(PyTuple_GET_ITEM(place, 0)) : -1;
  if (kind >= kItem && kind <= kMember) return kind;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "is_unchanged: expected a tuple of places");
  return -1;
}

int is_place_same(PyObject* place) {
  const long kind = kind_of_place(place);
  if (kind < 0) return -1;
  PyObject* owner = PyTuple_GET_ITEM(place, 1);
  if (kind == kFunction) return is_function_same(owner, place) ? 1 : 0;
  PyObject* expected = PyTuple_GET_SIZE(place) == 4 ? PyTuple_GET_ITEM(place, 3) : nullptr;
  Reference found(found_at(kind, owner, PyTuple_GET_ITEM(place, 2)));
  if (!found && PyErr_Occurred()) return -1;
  return found.get() == expected ? 1 : 0;
}

namespace {

PyObject* is_unchanged(PyObject*, PyObject* places) {
  if (!PyTuple_Check(places)) {
    PyErr_SetString(PyExc_TypeError, "is_unchanged: expected a tuple of places");
    return nullptr;
  }
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(places); ++index) {
    const int same = is_place_same(PyTuple_GET_ITEM(places, index));
    if (same < 0) return nullptr;
    if (same == 0) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef kMethods[] = {
    {"is_unchanged", is_unchanged, METH_O,
     "is_unchanged(places: tuple) -> bool\n--\n\n"
     "Whether each place holds the very object that it held: (0, dict, name, value), (1, cell, None, "
     "value),\n"
     "(2, function, None, code, defaults, keyword defaults), (3, object, name, value) of an attribute, \n"
     "(4, class, name, value) of a member that a class defines or inherits. Without the value: whether there "
     "is "
     "none."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_unchanged(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
