// SPDX-License-Identifier: Apache-2.0
//
// Guards of a compiled function. A walk over its places costs 10 to 30 ns each; CPython keeps words that
// change with them: a dictionary's version, a class's version, and the pointers in a cell, a function and a
// slot.
#include "python/call/guards.h"

#include <structmember.h>

#include <algorithm>
#include <new>
#include <utility>

#include "module.h"
#include "python/call/dict_version.h"
#include "python/call/unchanged.h"
#include "python/type_object.h"

namespace weft {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};

Type<Guards> g_type;

Guards* as_guards(PyObject* object) { return reinterpret_cast<Guards*>(object); }

// The word as it is now. A class without a version has 0 (it has used up its versions, or its method
// resolution order is its own): it tells nothing.
uint64_t read_word(const GuardWord& word) {
  const uint64_t found = word_at(word);
  return word.is_half && found == 0 ? kNever : found;
}

void add_word(Guards* guards, const void* where, bool is_half, Py_ssize_t place, bool is_final = false) {
  auto same = [=](const GuardWord& word) { return word.where == where && word.is_final == is_final; };
  auto& words = *guards->words;
  auto found = std::find_if(words.begin(), words.end(), same);
  if (found == words.end()) {
    words.push_back({where, 0, is_half, is_final, {}});
    found = words.end() - 1;
    found->expected = read_word(*found);
  }
  if (found->places.empty() || found->places.back() != place) found->places.push_back(place);
}

// The version of a class, which the guards then keep; a lookup by name, before, has given it one. 0, or -1
// with MemoryError.
int add_type(Guards* guards, PyTypeObject* type, Py_ssize_t place, bool is_final) {
  if (PyList_Append(guards->kept, reinterpret_cast<PyObject*>(type)) != 0) return -1;
  add_word(guards, &type->tp_version_tag, true, place, is_final);
  return 0;
}

void add_function(Guards* guards, PyObject* owner, Py_ssize_t place) {
  auto* function = reinterpret_cast<PyFunctionObject*>(owner);
  add_word(guards, &function->func_code, false, place);
  add_word(guards, &function->func_defaults, false, place);
  add_word(guards, &function->func_kwdefaults, false, place);
}

// The class of an object, and all members of the class: 0, or -1 with MemoryError.
int add_class(Guards* guards, PyObject* owner, Py_ssize_t place) {
  add_word(guards, &owner->ob_type, false, place, true);
  return add_type(guards, Py_TYPE(owner), place, true);
}

// A class's attribute, if it is the very value that the class or a base defines.
int add_class_attribute(Guards* guards, PyTypeObject* owner, PyObject* name, Py_ssize_t place) {
  // Members of the class `type` itself come first, and never change.
  if (Py_TYPE(owner) != &PyType_Type || _PyType_Lookup(&PyType_Type, name) != nullptr) return 0;
  PyObject* member = _PyType_Lookup(owner, name);
  if (member != nullptr && Py_TYPE(member)->tp_descr_get != nullptr) return 0;
  return add_type(guards, owner, place, true) == 0 ? 1 : -1;
}

// Where an object keeps its `__dict__`, or nullptr without an exception. It has one from now on, since
// without it CPython keeps attributes elsewhere.
PyObject** dict_pointer(PyObject* owner) {
  Reference dict(PyObject_GenericGetDict(owner, nullptr));
  if (!dict) PyErr_Clear();
  PyObject** place = dict ? _PyObject_GetDictPtr(owner) : nullptr;
  return place != nullptr && *place == dict.get() && PyDict_CheckExact(dict.get()) ? place : nullptr;
}

// An attribute in an object's own dictionary, or else a plain value that its class defines, or nothing.
int add_own_attribute(Guards* guards, PyObject* owner, PyObject* name, const PyObject* member,
                      Py_ssize_t place) {
  if (member != nullptr && Py_TYPE(member)->tp_descr_get != nullptr) return 0;
  PyObject** dict = dict_pointer(owner);
  if (dict != nullptr) {
    const uint64_t* version = watch_dict(*dict, name);
    if (version == nullptr) return 0;
    guards->dicts->push_back(*dict);
    if (PyList_Append(guards->kept, *dict) != 0) return -1;
    add_word(guards, dict, false, place, true);
    add_word(guards, version, false, place);
  } else if (Py_TYPE(owner)->tp_dictoffset != 0) {
    return 0;
  }
  return add_class(guards, owner, place) == 0 ? 1 : -1;
}

// An attribute that Python finds without running any code: 1, 0 if it is none, or -1 with an exception.
int add_attribute(Guards* guards, PyObject* owner, PyObject* name, Py_ssize_t place) {
  if (PyType_Check(owner))
    return add_class_attribute(guards, reinterpret_cast<PyTypeObject*>(owner), name, place);
  PyTypeObject* type = Py_TYPE(owner);
  if (type->tp_getattro != PyObject_GenericGetAttr || !PyUnicode_Check(name)) return 0;
  PyObject* member = _PyType_Lookup(type, name);
  if (member != nullptr && Py_TYPE(member) == &PyMemberDescr_Type) {
    const PyMemberDef* slot = reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
    if (slot->type != T_OBJECT_EX && slot->type != T_OBJECT) return 0;
    add_word(guards, reinterpret_cast<char*>(owner) + slot->offset, false, place);
    return add_class(guards, owner, place) == 0 ? 1 : -1;
  }
  if (member != nullptr && Py_TYPE(member) == &PyGetSetDescr_Type) {
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
      return add_class(guards, owner, place) == 0 ? 1 : -1;
    }
    PyObject** dict = PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 ? dict_pointer(owner) : nullptr;
    if (dict == nullptr) return 0;
    add_word(guards, dict, false, place, true);
    return add_class(guards, owner, place) == 0 ? 1 : -1;
  }
  return add_own_attribute(guards, owner, name, member, place);
}

// The words that change with a place: 1, 0 if there are none, or -1 with an exception.
int add_place(Guards* guards, PyObject* place, Py_ssize_t index) {
  const long kind = kind_of_place(place);
  if (kind < 0) return -1;
  PyObject* owner = PyTuple_GET_ITEM(place, 1);
  PyObject* name = PyTuple_GET_ITEM(place, 2);
  switch (kind) {
    case kItem: {
      if (!PyDict_CheckExact(owner)) return 0;
      const uint64_t* version = watch_dict(owner, name);
      if (version == nullptr) return 0;
      guards->dicts->push_back(owner);
      add_word(guards, version, false, index);
      return 1;
    }
    case kCell:
      if (!PyCell_Check(owner)) return 0;
      add_word(guards, &reinterpret_cast<PyCellObject*>(owner)->ob_ref, false, index);
      return 1;
    case kFunction:
      if (!PyFunction_Check(owner)) return 0;
      add_function(guards, owner, index);
      return 1;
    case kMember: {
      if (!PyType_Check(owner)) return 0;
      _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name);
      return add_type(guards, reinterpret_cast<PyTypeObject*>(owner), index, false) == 0 ? 1 : -1;
    }
    default:
      return add_attribute(guards, owner, name, index);
  }
}

int are_places_same(const Guards* guards, const std::vector<Py_ssize_t>& indices) {
  for (Py_ssize_t index : indices) {
    const int same = is_place_same(PyTuple_GET_ITEM(guards->places, index));
    if (same != 1) return same;
  }
  return 1;
}

PyObject* make(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"places", nullptr};
  PyObject* places;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!:Guards", const_cast<char**>(kNames),
                                   &PyTuple_Type, &places)) {
    return nullptr;
  }
  Reference made(g_type.make());
  if (!made) return nullptr;
  Guards* guards = as_guards(made.get());
  guards->places = Py_NewRef(places);
  guards->kept = PyList_New(0);
  guards->words = new (std::nothrow) std::vector<GuardWord>;
  guards->looked_at = new (std::nothrow) std::vector<Py_ssize_t>;
  guards->dicts = new (std::nothrow) std::vector<PyObject*>;
  if (guards->kept == nullptr) return nullptr;
  if (guards->words == nullptr || guards->looked_at == nullptr || guards->dicts == nullptr) {
    return PyErr_NoMemory();
  }
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(places); ++index) {
    PyObject* place = PyTuple_GET_ITEM(places, index);
    const int found = add_place(guards, place, index);
    if (found < 0) return nullptr;
    if (found == 0) guards->looked_at->push_back(index);
  }
  // A place that has changed since it was read must not be taken for current.
  for (GuardWord& word : *guards->words) {
    const int same = are_places_same(guards, word.places);
    if (same < 0) return nullptr;
    if (same == 0) word.expected = kNever;
  }
  return made.release();
}

PyObject* is_current(PyObject* self, PyObject*) {
  const int current = are_guards_current(as_guards(self));
  return current < 0 ? nullptr : PyBool_FromLong(current);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Guards* guards = as_guards(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(guards->places);
  Py_VISIT(guards->kept);
  return 0;
}

int clear(PyObject* self) {
  Guards* guards = as_guards(self);
  delete std::exchange(guards->words, nullptr);
  delete std::exchange(guards->looked_at, nullptr);
  const auto* dicts = std::exchange(guards->dicts, nullptr);
  if (dicts != nullptr) {
    for (PyObject* dict : *dicts) unwatch_dict(dict);
    delete dicts;
  }
  Py_CLEAR(guards->places);
  Py_CLEAR(guards->kept);
  return 0;
}

void release(PyObject* self) { clear(self); }

PyMethodDef kMethods[] = {
    {"is_current", is_current, METH_NOARGS,
     "is_current() -> bool\n--\n\n"
     "Whether each place holds the very object that it held, as `is_unchanged` says of all of them."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject* guards_type() { return g_type.get(); }

int confirm_guards(Guards* guards) {
  // Looking at an attribute may run any code, also the collector's.
  Reference kept(Py_NewRef(&guards->base));
  for (size_t number = 0; guards->words != nullptr && number < guards->words->size(); ++number) {
    // A copy: the words may go while their places are looked at.
    GuardWord word = (*guards->words)[number];
    const uint64_t before = word_at(word);
    if (before == word.expected) continue;
    const int same = are_places_same(guards, word.places);
    if (same != 1) return same;
    if (guards->words == nullptr) return 0;
    // A class gets its version when it is looked at; another word may have changed again since.
    (*guards->words)[number].expected = word.is_final ? kNever : word.is_half ? read_word(word) : before;
  }
  if (guards->words == nullptr) return 0;
  const std::vector<Py_ssize_t> looked_at = *guards->looked_at;
  return are_places_same(guards, looked_at);
}

int add_guards(PyObject* module) {
  return g_type.add(module, "weft._native.Guards",
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
                    {{Py_tp_new, make},
                     {Py_tp_dealloc, Type<Guards>::dealloc<release>},
                     {Py_tp_traverse, traverse},
                     {Py_tp_clear, clear},
                     {Py_tp_methods, kMethods}});
}

}  // namespace weft
