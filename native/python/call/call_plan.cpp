// SPDX-License-Identifier: Apache-2.0
//
// The CallPlan type: checks its arguments once, so that calls need not.
#include "python/call/call_plan.h"

#include <structmember.h>

#include "module.h"
#include "python/type_object.h"

namespace weft {
namespace {

Type<CallPlan> g_type;

CallPlan* as_plan(PyObject* object) { return reinterpret_cast<CallPlan*>(object); }

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  CallPlan* plan = as_plan(self);
  for (Py_ssize_t index = 0; plan->defaults != nullptr && index < plan->count; ++index) {
    Py_VISIT(plan->defaults[index]);
  }
  Py_VISIT(plan->items);
  Py_VISIT(plan->result);
  return 0;
}

int clear(PyObject* self) {
  CallPlan* plan = as_plan(self);
  for (Py_ssize_t index = 0; plan->defaults != nullptr && index < plan->count; ++index) {
    Py_CLEAR(plan->defaults[index]);
  }
  Py_CLEAR(plan->items);
  Py_CLEAR(plan->result);
  return 0;
}

void release(PyObject* self) {
  CallPlan* plan = as_plan(self);
  clear(self);
  Py_XDECREF(plan->name);
  Py_XDECREF(plan->signature);
  Py_XDECREF(plan->parameters);
  PyMem_Free(plan->defaults);
  PyMem_Free(plan->flags);
}

// Interned, so that keywords are found by comparing pointers.
PyObject* intern_names(PyObject* parameters) {
  Reference given(PySequence_Tuple(parameters));
  Reference names(given ? PyTuple_New(PyTuple_GET_SIZE(given.get())) : nullptr);
  if (!names) return nullptr;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(given.get()); ++index) {
    PyObject* name = PyTuple_GET_ITEM(given.get(), index);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "CallPlan: expected parameter names as str, received %R", name);
      return nullptr;
    }
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    PyTuple_SET_ITEM(names.get(), index, name);
  }
  return names.release();
}

// Defaults as a tuple for the last parameters that can be positional, or a dict by name.
int set_defaults(CallPlan* plan, PyObject* defaults) {
  if (defaults == nullptr || defaults == Py_None) return 0;
  if (PyTuple_Check(defaults)) {
    Py_ssize_t count = PyTuple_GET_SIZE(defaults);
    if (count > plan->positional_count) {
      return refuse(PyExc_ValueError, "CallPlan: %zd defaults for %zd parameters", count,
                    plan->positional_count);
    }
    for (Py_ssize_t index = 0; index < count; ++index) {
      plan->defaults[plan->positional_count - count + index] = Py_NewRef(PyTuple_GET_ITEM(defaults, index));
    }
    return 0;
  }
  if (!PyDict_Check(defaults)) {
    return refuse(PyExc_TypeError, "CallPlan: expected defaults as a dict or tuple, received %s",
                  Py_TYPE(defaults)->tp_name);
  }
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(defaults, &position, &name, &value)) {
    Py_ssize_t index = PySequence_Index(plan->parameters, name);
    if (index < 0) {
      PyErr_Clear();
      return refuse(PyExc_ValueError, "CallPlan: a default for %R, which is not a parameter", name);
    }
    plan->defaults[index] = Py_NewRef(value);
  }
  return 0;
}

int set_mask(CallPlan* plan, PyObject* mask, uint8_t flag, const char* name) {
  if (mask == nullptr) return 0;
  if (!PyLong_Check(mask)) return refuse(PyExc_TypeError, "CallPlan: expected %s as int", name);
  Reference one(PyLong_FromLong(1));
  for (Py_ssize_t index = 0; index < plan->count; ++index) {
    Reference shift(PyLong_FromSsize_t(index));
    Reference shifted(shift ? PyNumber_Rshift(mask, shift.get()) : nullptr);
    Reference bit(shifted && one ? PyNumber_And(shifted.get(), one.get()) : nullptr);
    if (!bit) return -1;
    if (PyObject_IsTrue(bit.get()) > 0) plan->flags[index] = static_cast<uint8_t>(plan->flags[index] | flag);
  }
  return 0;
}

bool is_item_plan(PyObject* plan) {
  if (!PyTuple_Check(plan) || PyTuple_GET_SIZE(plan) != 2) return false;
  PyObject* children = PyTuple_GET_ITEM(plan, 0);
  if (!PyTuple_Check(children) || !PyTuple_Check(PyTuple_GET_ITEM(plan, 1))) return false;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(children); ++index) {
    PyObject* child = PyTuple_GET_ITEM(children, index);
    if (!PyLong_Check(child) && !is_item_plan(child)) return false;
  }
  return true;
}

int set_items(CallPlan* plan, PyObject* items) {
  if (items == nullptr || items == Py_None) return 0;
  if (!PyTuple_Check(items) || PyTuple_GET_SIZE(items) != plan->count) {
    return refuse(PyExc_TypeError, "CallPlan: expected items as a tuple of %zd, received %R", plan->count,
                  items);
  }
  for (Py_ssize_t index = 0; index < plan->count; ++index) {
    PyObject* item = PyTuple_GET_ITEM(items, index);
    if (item == Py_None) continue;
    if (!is_item_plan(item)) {
      return refuse(PyExc_TypeError, "CallPlan: expected (children, constants) as items[%zd], received %R",
                    index, item);
    }
    plan->flags[index] = static_cast<uint8_t>(plan->flags[index] | kArgumentItems);
  }
  plan->items = Py_NewRef(items);
  return 0;
}

bool is_result_plan(PyObject* plan) {
  if (!PyTuple_Check(plan) || PyTuple_GET_SIZE(plan) != 2) return false;
  PyObject* make = PyTuple_GET_ITEM(plan, 0);
  PyObject* children = PyTuple_GET_ITEM(plan, 1);
  if ((make != Py_None && !PyCallable_Check(make)) || !PyTuple_Check(children)) return false;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(children); ++index) {
    PyObject* child = PyTuple_GET_ITEM(children, index);
    if (child != Py_None && !is_result_plan(child)) return false;
  }
  return true;
}

int set_result(CallPlan* plan, PyObject* result) {
  if (result == nullptr || result == Py_None) return 0;
  if (!is_result_plan(result)) {
    return refuse(PyExc_TypeError, "CallPlan: expected (callable, children) or None as result, received %R",
                  result);
  }
  plan->result = Py_NewRef(result);
  return 0;
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {
      "name",         "signature_text", "parameters",  "positional_count", "defaults",
      "written_mask", "stream_mask",    "release_gil", "owned_tensors",    "positional_only_count",
      "foreign",      "items",          "result",      "read_mask",        nullptr};
  PyObject *name, *signature, *parameters, *positional = Py_None, *defaults = nullptr;
  PyObject *written = nullptr, *streams = nullptr, *items = nullptr, *result = nullptr, *read = nullptr;
  int release_gil = 0, owned_tensors = 0, foreign = 0;
  Py_ssize_t positional_only = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UUO|OOOOppnpOOO:CallPlan",
                                   const_cast<char**>(kNames), &name, &signature, &parameters, &positional,
                                   &defaults, &written, &streams, &release_gil, &owned_tensors,
                                   &positional_only, &foreign, &items, &result, &read)) {
    return nullptr;
  }
  Reference self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  CallPlan* plan = as_plan(self.get());
  plan->name = Py_NewRef(name);
  plan->signature = Py_NewRef(signature);
  plan->parameters = intern_names(parameters);
  if (plan->parameters == nullptr) return nullptr;
  plan->count = PyTuple_GET_SIZE(plan->parameters);
  plan->positional_count = positional == Py_None ? plan->count : PyLong_AsSsize_t(positional);
  plan->positional_only_count = positional_only;
  if (PyErr_Occurred()) return nullptr;
  if (plan->positional_count < 0 || plan->positional_count > plan->count || positional_only < 0 ||
      positional_only > plan->positional_count) {
    PyErr_Format(PyExc_ValueError, "CallPlan: %zd positional and %zd positional-only of %zd parameters",
                 plan->positional_count, positional_only, plan->count);
    return nullptr;
  }
  size_t count = static_cast<size_t>(plan->count) + 1;  // never zero bytes
  plan->defaults = static_cast<PyObject**>(PyMem_Calloc(count, sizeof(PyObject*)));
  plan->flags = static_cast<uint8_t*>(PyMem_Calloc(count, 1));
  if (plan->defaults == nullptr || plan->flags == nullptr) return PyErr_NoMemory();
  plan->release_gil = release_gil != 0;
  plan->owned_tensors = owned_tensors != 0;
  plan->foreign = foreign != 0;
  if (set_defaults(plan, defaults) != 0 || set_mask(plan, written, kArgumentWritten, "written_mask") != 0 ||
      set_mask(plan, streams, kArgumentStream, "stream_mask") != 0 ||
      set_mask(plan, read, kArgumentRead, "read_mask") != 0 || set_items(plan, items) != 0 ||
      set_result(plan, result) != 0) {
    return nullptr;
  }
  return self.release();
}

PyObject* defaults_as_dict(PyObject* self, void*) {
  CallPlan* plan = as_plan(self);
  Reference dict(PyDict_New());
  for (Py_ssize_t index = 0; dict && index < plan->count; ++index) {
    PyObject* value = plan->defaults[index];
    if (value == nullptr) continue;
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(plan->parameters, index), value) != 0) return nullptr;
  }
  return dict.release();
}

PyObject* written_names(PyObject* self, void*) {
  CallPlan* plan = as_plan(self);
  Reference names(PyList_New(0));
  for (Py_ssize_t index = 0; names && index < plan->count; ++index) {
    if ((plan->flags[index] & kArgumentWritten) == 0) continue;
    if (PyList_Append(names.get(), PyTuple_GET_ITEM(plan->parameters, index)) != 0) return nullptr;
  }
  return names ? PyList_AsTuple(names.get()) : nullptr;
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<weft.CallPlan %U>", as_plan(self)->signature);
}

PyMemberDef kMembers[] = {
    {"name", T_OBJECT_EX, offsetof(CallPlan, name), READONLY, nullptr},
    {"signature_text", T_OBJECT_EX, offsetof(CallPlan, signature), READONLY, nullptr},
    {"parameters", T_OBJECT_EX, offsetof(CallPlan, parameters), READONLY, nullptr},
    {"positional_count", T_PYSSIZET, offsetof(CallPlan, positional_count), READONLY, nullptr},
    {"positional_only_count", T_PYSSIZET, offsetof(CallPlan, positional_only_count), READONLY, nullptr},
    {"release_gil", T_BOOL, offsetof(CallPlan, release_gil), READONLY, nullptr},
    {"owned_tensors", T_BOOL, offsetof(CallPlan, owned_tensors), READONLY, nullptr},
    {"foreign", T_BOOL, offsetof(CallPlan, foreign), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"defaults", defaults_as_dict, nullptr, "Defaults by parameter name.", nullptr},
    {"written", written_names, nullptr, "Names of the parameters that kernels write through.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

const char kDoc[] =
    "CallPlan(name, signature_text, parameters, positional_count=None, defaults=None, written_mask=0,\n"
    "         stream_mask=0, release_gil=False, owned_tensors=False, positional_only_count=0,\n"
    "         foreign=False, items=None, result=None, read_mask=0)\n\n"
    "How a function is called: its parameters and policies, as plain data.\n\n"
    "`defaults` is a dict by name, or a tuple for the last positional parameters. Bit i of `written_mask`\n"
    "means that kernels write through argument i, bit i of `stream_mask` that it is a stream, bit i of\n"
    "`read_mask` that new tensors are made of it.\n"
    "`items` holds None per parameter, or (children, constants) for a container: a child is the flags of an\n"
    "item (1: written, 2: a stream, 8: read) or such a pair, constants are the required values of its "
    "compile-time "
    "fields.\n"
    "`result` converts a returned tuple: a callable that receives it, or None, and the same for\n"
    "each of its items; None leaves it unchanged.\n"
    "`release_gil` is for functions that block; `owned_tensors` for those that keep or return tensors,\n"
    "`foreign` for those that take every kind of value.";

}  // namespace

PyTypeObject* call_plan_type() { return g_type.get(); }

int add_call_plan(PyObject* module) {
  return g_type.add(module, "weft._native.CallPlan",
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
                    {{Py_tp_doc, kDoc},
                     {Py_tp_new, create},
                     {Py_tp_dealloc, Type<CallPlan>::dealloc<release>},
                     {Py_tp_traverse, traverse},
                     {Py_tp_clear, clear},
                     {Py_tp_repr, repr},
                     {Py_tp_members, kMembers},
                     {Py_tp_getset, kProperties}});
}

}  // namespace weft
