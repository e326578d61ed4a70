// SPDX-License-Identifier: Apache-2.0
//
// The Function type: construction, attributes, lifetime. Calling it is in call.cpp.
#include "python/call/function.h"

#include <structmember.h>

#include "ffi_library.h"
#include "module.h"
#include "python/call/first_call.h"
#include "python/call/prepared_call.h"
#include "python/callbacks/callback.h"
#include "python/callbacks/standard_function.h"
#include "python/errors/ffi_error.h"
#include "python/type_object.h"
#include "python/values/encode/encode.h"
#include "python/values/interop.h"

namespace weft {
namespace {

Type<Function> g_type;

Function* as_function(PyObject* object) { return reinterpret_cast<Function*>(object); }

int traverse(PyObject* self, visitproc visit, void* arg) {
  Function* function = as_function(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(function->plan);
  Py_VISIT(function->owner);
  Py_VISIT(function->details);
  Py_VISIT(function->foreign);
  Py_VISIT(function->first_call);
  if (function->is_callback) Py_VISIT(callable_for_collector(function->object));
  return 0;
}

// A finalizer in the same cycle may still call the function, whose code may be gone.
PyObject* call_cleared(PyObject*, PyObject* const*, size_t, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError, "this function has been garbage-collected");
  return nullptr;
}

int clear(PyObject* self) {
  Function* function = as_function(self);
  function->vectorcall = call_cleared;
  function->argument_flags = nullptr;
  Py_CLEAR(function->foreign);
  Py_CLEAR(function->label);
  Py_CLEAR(function->first_call);
  Py_CLEAR(function->details);
  Py_CLEAR(function->plan);
  Py_CLEAR(function->owner);
  if (function->is_callback) clear_for_collector(function->object);
  return 0;
}

void release(PyObject* self) {
  Function* function = as_function(self);
  clear(self);
  if (function->is_callback) count_function(function->object, -1);
  if (function->object != nullptr) ffi().object_dec_ref(function->object);
}

bool g_release_gil = true;  // default of foreign functions

Function* new_function(TVMFFISafeCallType safe_call, void* handle, PyObject* plan, PyObject* details) {
  Function* function = as_function(g_type.make());
  if (function == nullptr) return nullptr;
  function->vectorcall = call_function;
  function->safe_call = safe_call;
  function->handle = handle;
  function->direct_count = kAnyCount;
  // Nothing is known about a foreign function: it may keep its arguments, and may block.
  function->owned_tensors = true;
  function->any_value = true;
  function->writer = Writer::kCallee;
  function->release_gil = g_release_gil;
  if (plan != nullptr && plan != Py_None) {
    function->plan = reinterpret_cast<CallPlan*>(Py_NewRef(plan));
    bool all_positional = function->plan->positional_count == function->plan->count;
    function->direct_count = all_positional ? function->plan->count : kAlwaysBind;
    function->argument_flags = function->plan->flags;
    function->release_gil = function->plan->release_gil;
    function->owned_tensors = function->plan->owned_tensors;
    function->any_value = function->plan->foreign;
    if (!function->any_value)
      function->writer = Writer::kNobody;  // its flags name the tensors that it writes
  }
  if (details != nullptr && details != Py_None) function->details = Py_NewRef(details);
  return function;
}

// Takes over the reference, even on failure. A callback takes the GIL itself, so it is not released, and
// passes read-only arrays to Python as such.
PyObject* new_function_of_object(TVMFFIObject* object, PyObject* plan, PyObject* details) {
  auto* cell = reinterpret_cast<TVMFFIFunctionCell*>(object + 1);
  Function* function = new_function(cell->safe_call, object, plan, details);
  if (function == nullptr) {
    ffi().object_dec_ref(object);
    return nullptr;
  }
  if (is_callback(object)) {
    count_function(object, 1);
    function->is_callback = true;
    function->release_gil = false;
    function->writer = Writer::kNobody;
  }
  const Storing storing = is_storing(object);
  if (storing != Storing::kNot) {
    function->keeps = true;
    function->writer = storing == Storing::kShared ? Writer::kHolders : Writer::kNobody;
  }
  function->object = object;
  return &function->base;
}

int check_plan(PyObject* plan) {
  if (plan == nullptr || plan == Py_None || Py_TYPE(plan) == call_plan_type()) return 0;
  return refuse(PyExc_TypeError, "expected a CallPlan or None as plan, received %s", Py_TYPE(plan)->tp_name);
}

PyObject* from_address(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"safe_call", "handle", "owner", "plan", "details", nullptr};
  PyObject *safe_call, *handle, *owner = Py_None, *plan = Py_None, *details = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|OOO:from_address", const_cast<char**>(kNames),
                                   &safe_call, &handle, &owner, &plan, &details)) {
    return nullptr;
  }
  void* code = PyLong_AsVoidPtr(safe_call);
  if (code == nullptr && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "safe_call is a null address");
  if (PyErr_Occurred() || check_plan(plan) != 0) return nullptr;
  void* state = handle == Py_None ? nullptr : PyLong_AsVoidPtr(handle);
  if (PyErr_Occurred() || require_library() != 0) return nullptr;
  Function* function = new_function(reinterpret_cast<TVMFFISafeCallType>(code), state, plan, details);
  if (function == nullptr) return nullptr;
  if (owner != Py_None) function->owner = Py_NewRef(owner);
  return &function->base;
}

PyObject* from_object(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"address", "borrowed", "plan", "details", nullptr};
  PyObject *address, *plan = Py_None, *details = Py_None;
  int borrowed;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Op|OO:from_object", const_cast<char**>(kNames),
                                   &address, &borrowed, &plan, &details)) {
    return nullptr;
  }
  auto* object = static_cast<TVMFFIObject*>(PyLong_AsVoidPtr(address));
  if (object == nullptr && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "address is null");
  if (PyErr_Occurred() || check_plan(plan) != 0 || require_library() != 0) return nullptr;
  if (object->type_index != kTVMFFIFunction) {
    PyErr_Format(PyExc_TypeError, "expected an FFI function (type index %d), received type index %d",
                 kTVMFFIFunction, object->type_index);
    return nullptr;
  }
  if (borrowed) ffi().object_inc_ref(object);
  PyObject* function = new_function_of_object(object, plan, details);
  if (function == nullptr && !borrowed) ffi().object_inc_ref(object);  // still the caller's
  return function;
}

PyObject* to_object(PyObject* self, PyObject*) {
  TVMFFIObject* object = function_object(*as_function(self));
  return object == nullptr ? nullptr : PyLong_FromVoidPtr(object);
}

PyObject* foreign_function(PyObject* self, PyObject*) {
  Function* function = as_function(self);
  if (function->foreign == nullptr) {
    TVMFFIObject* object = function_object(*function);
    if (object == nullptr) return nullptr;
    function->foreign = to_foreign_object(object);
    ffi().object_dec_ref(object);
  }
  return Py_XNewRef(function->foreign);
}

// Attributes that the type does not have come from `details`.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* details = as_function(self)->details;
  // The type's own module is weft's, not the function's.
  if (details != nullptr && PyUnicode_Check(name) &&
      PyUnicode_CompareWithASCIIString(name, "__module__") == 0) {
    Reference module(PyObject_GetAttrString(details, "module"));
    if (module && PyUnicode_Check(module.get())) return module.release();
    PyErr_Clear();
  }
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value != nullptr || details == nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  value = PyObject_GetAttr(details, name);
  if (value == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError) && PyUnicode_Check(name)) {
    // Name the function in the error, not its details; errors raised by a property stay.
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    if (traceback != nullptr) {
      PyErr_Restore(type, error, traceback);
      return nullptr;
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Reference own_name(name_of_function(*as_function(self)));
    if (!own_name) return nullptr;
    PyErr_Format(PyExc_AttributeError, "function '%U' has no attribute '%U'", own_name.get(), name);
  }
  return value;
}

// Hidden from `dir`: attributes for the package itself.
constexpr const char* kInternal[] = {
    "details", "plan", "owner", "from_object", "from_address", "report_first_call", "__vectorcalloffset__"};

// The attributes of the function and of its details.
PyObject* list_attributes(PyObject* self, PyObject*) {
  auto* base = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
  Reference own(PyObject_CallMethod(base, "__dir__", "O", self));
  Reference names(own ? PySet_New(own.get()) : nullptr);
  if (!names) return nullptr;
  for (const char* internal : kInternal) {
    Reference name(PyUnicode_FromString(internal));
    if (!name || PySet_Discard(names.get(), name.get()) < 0) return nullptr;
  }
  PyObject* details = as_function(self)->details;
  if (details != nullptr) {
    Reference more(PyObject_Dir(details));
    Reference updated(more ? PyObject_CallMethod(names.get(), "update", "O", more.get()) : nullptr);
    if (!updated) return nullptr;
  }
  return PySequence_List(names.get());
}

// Name and text come from the plan; a function without one may have a given name.
PyObject* get_name(PyObject* self, void*) { return name_of_function(*as_function(self)); }

int set_name(PyObject* self, PyObject* value, void*) {
  Function* function = as_function(self);
  if (function->plan != nullptr) {
    return refuse(PyExc_AttributeError, "function '%U' has its name from its signature",
                  function->plan->name);
  }
  if (value == nullptr || !PyUnicode_Check(value)) {
    return refuse(PyExc_TypeError, "expected a str as __name__, received %s",
                  value == nullptr ? "nothing" : Py_TYPE(value)->tp_name);
  }
  Py_XSETREF(function->label, Py_NewRef(value));
  return 0;
}

PyObject* detail_or_none(PyObject* self, const char* name) {
  PyObject* details = as_function(self)->details;
  if (details == nullptr) Py_RETURN_NONE;
  PyObject* value = PyObject_GetAttrString(details, name);
  if (value != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  Py_RETURN_NONE;
}

PyObject* get_doc(PyObject* self, void*) {
  // A details object's own __doc__ describes its class.
  return detail_or_none(self, "documentation");
}

// An inspect.Signature of the plan; inspect is imported on demand only.
PyObject* get_signature(PyObject* self, void*) {
  PyObject* given = detail_or_none(self, "__signature__");
  if (given == nullptr || given != Py_None) return given;
  Py_DECREF(given);
  CallPlan* plan = as_function(self)->plan;
  if (plan == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "a function without a plan has no __signature__");
    return nullptr;
  }
  Reference inspect(PyImport_ImportModule("inspect"));
  Reference type(inspect ? PyObject_GetAttrString(inspect.get(), "Parameter") : nullptr);
  Reference parameters(type ? PyList_New(0) : nullptr);
  for (Py_ssize_t index = 0; parameters && index < plan->count; ++index) {
    const char* kind = index < plan->positional_only_count ? "POSITIONAL_ONLY"
                       : index < plan->positional_count    ? "POSITIONAL_OR_KEYWORD"
                                                           : "KEYWORD_ONLY";
    Reference kind_value(PyObject_GetAttrString(type.get(), kind));
    Reference arguments(
        kind_value ? PyTuple_Pack(2, PyTuple_GET_ITEM(plan->parameters, index), kind_value.get()) : nullptr);
    Reference options(PyDict_New());
    PyObject* fallback = plan->defaults[index];
    if (!arguments || !options) return nullptr;
    if (fallback != nullptr && PyDict_SetItemString(options.get(), "default", fallback) != 0) return nullptr;
    Reference parameter(PyObject_Call(type.get(), arguments.get(), options.get()));
    if (!parameter || PyList_Append(parameters.get(), parameter.get()) != 0) return nullptr;
  }
  return parameters ? PyObject_CallMethod(inspect.get(), "Signature", "O", parameters.get()) : nullptr;
}

PyObject* get_safe_call(PyObject* self, void*) {
  return PyLong_FromVoidPtr(reinterpret_cast<void*>(as_function(self)->safe_call));
}

PyObject* get_handle(PyObject* self, void*) { return PyLong_FromVoidPtr(as_function(self)->handle); }

PyObject* get_release_gil(PyObject* self, void*) { return PyBool_FromLong(as_function(self)->release_gil); }

int set_release_gil(PyObject* self, PyObject* value, void*) {
  int truth = value == nullptr ? -1 : PyObject_IsTrue(value);
  if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "release_gil cannot be deleted");
  if (truth < 0) return -1;
  as_function(self)->release_gil = truth != 0;
  return 0;
}

bool writes_by_flags(const Function& function) { return function.plan != nullptr && !function.any_value; }

PyObject* get_writes(PyObject* self, void*) {
  const Function& function = *as_function(self);
  bool writes = function.writer != Writer::kNobody;
  for (Py_ssize_t index = 0; writes_by_flags(function) && index < function.plan->count; ++index) {
    writes = writes || (function.plan->flags[index] & (kArgumentWritten | kArgumentItems)) != 0;
  }
  return PyBool_FromLong(writes);
}

int set_writes(PyObject* self, PyObject* value, void*) {
  Function* function = as_function(self);
  if (writes_by_flags(*function)) {
    return refuse(PyExc_AttributeError, "function '%U' knows which of its arguments it writes",
                  function->plan->name);
  }
  int truth = value == nullptr ? -1 : PyObject_IsTrue(value);
  if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "writes cannot be deleted");
  if (truth < 0) return -1;
  function->writer = !truth ? Writer::kNobody : function->keeps ? Writer::kHolders : Writer::kCallee;
  return 0;
}

PyObject* get_tensor_type(PyObject* self, void*) {
  const TypeEntry* entry = as_function(self)->policy.tensors;
  if (entry == nullptr) Py_RETURN_NONE;
  return Py_NewRef(reinterpret_cast<PyObject*>(entry->type));
}

int set_function_tensor_type(PyObject* self, PyObject* value, void*) {
  return set_tensor_type(value, &as_function(self)->policy);
}

PyObject* get_objects(PyObject* self, void*) {
  return PyUnicode_FromString(object_mode_name(as_function(self)->policy.objects));
}

int set_objects(PyObject* self, PyObject* value, void*) {
  return set_object_mode(value, &as_function(self)->policy);
}

PyObject* set_release_gil_default(PyObject*, PyObject* value) {
  int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  g_release_gil = truth != 0;
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"set_release_gil_default", set_release_gil_default, METH_O,
     "set_release_gil_default(release: bool) -> None\n--\n\n"
     "Sets whether foreign functions made from now on are called without the GIL."},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* repr(PyObject* self) {
  Function* function = as_function(self);
  if (function->plan == nullptr && function->label != nullptr) {
    return PyUnicode_FromFormat("<weft function %U>", function->label);
  }
  if (function->plan == nullptr) return PyUnicode_FromFormat("<weft function at %p>", function->handle);
  return PyUnicode_FromFormat("<weft function %U>", function->plan->signature);
}

// A compiled function knows how it is pickled; another one is a place in memory.
PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* details = as_function(self)->details;
  if (details != nullptr && PyObject_HasAttrString(details, "_reduced")) {
    return PyObject_CallMethod(details, "_reduced", nullptr);
  }
  return PyErr_Format(PyExc_TypeError, "%R cannot be pickled: it was not compiled by weft", self);
}

PyMethodDef kMethods[] = {
    {"from_address", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_address)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "from_address(safe_call, handle, owner=None, plan=None, details=None)\n--\n\n"
     "A function over a TVMFFISafeCallType at an address. `handle` is its first argument; `owner` is kept\n"
     "alive as long as the function, or any TVMFFIFunction made from it, lives."},
    {"from_object", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(from_object)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "from_object(address, borrowed, plan=None, details=None)\n--\n\n"
     "A function over the TVMFFIFunction at an address: `borrowed=True` adds a reference,\n"
     "`borrowed=False` takes over the caller's."},
    {"prepare", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(prepare_call)),
     METH_FASTCALL | METH_KEYWORDS,
     "prepare(*arguments, **keywords)\n--\n\n"
     "A repeatable call with these arguments, converted now: `prepared()`. It holds\n"
     "them; `prepared[0] = value` and `prepared.replace(name=value)` replace them."},
    {"report_first_call", report_first_call, METH_O,
     "report_first_call(callback)\n--\n\nTimes the first call that succeeds: `callback(seconds)` after it."},
    {"to_object", to_object, METH_NOARGS,
     "to_object()\n--\n\nThe address of a TVMFFIFunction over the same code; the caller owns a reference."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__dir__", list_attributes, METH_NOARGS, nullptr},
    {"__tvm_ffi_object__", foreign_function, METH_NOARGS, "The same function in the tvm_ffi package."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"__name__", get_name, set_name, "Its name in errors; writable unless it has a signature.", nullptr},
    {"__qualname__", get_name, nullptr, nullptr, nullptr},
    {"__doc__", get_doc, nullptr, nullptr, nullptr},
    {"__signature__", get_signature, nullptr, nullptr, nullptr},
    {"release_gil", get_release_gil, set_release_gil,
     "Whether calls release the GIL: for code that blocks, or waits for other threads.", nullptr},
    {"writes", get_writes, set_writes,
     "Whether it may write into its array arguments, so that read-only ones are refused.", nullptr},
    {"tensor_type", get_tensor_type, set_function_tensor_type,
     "The class of returned tensors; None follows the first tensor argument.", nullptr},
    {"objects", get_objects, set_objects,
     "How objects are returned: 'values' (containers as Python's own), 'objects' (as weft.ffi's) or\n"
     "'tvm_ffi' (as that package's).",
     nullptr},
    {"safe_call_address", get_safe_call, nullptr, "The address of the code.", nullptr},
    {"handle_address", get_handle, nullptr, "The code's first argument.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Function, weak_references), READONLY, nullptr},
    {"plan", T_OBJECT, offsetof(Function, plan), READONLY, "The CallPlan, or None."},
    {"details", T_OBJECT, offsetof(Function, details), READONLY, "The source of further attributes."},
    {"owner", T_OBJECT, offsetof(Function, owner), READONLY, "Keeps the code alive."},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

PyTypeObject* function_type() { return g_type.get(); }

int require_library() {
  if (WEFT_LIKELY(ffi().is_open)) return 0;
  Reference module(PyImport_ImportModule("weft.ffi.library"));
  Reference opened(module ? PyObject_CallMethod(module.get(), "open_ffi_library", nullptr) : nullptr);
  return opened ? 0 : -1;
}

PyObject* name_of_function(const Function& function) {
  if (function.plan != nullptr) return Py_NewRef(function.plan->name);
  return function.label != nullptr ? Py_NewRef(function.label) : PyUnicode_FromString("function");
}

PyObject* function_of_object(TVMFFIObject* object) {
  return new_function_of_object(object, nullptr, nullptr);
}

int add_function(PyObject* module) {
  if (g_type.add(module, "weft._native.Function",
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                     Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                 {{Py_tp_dealloc, Type<Function>::dealloc<release>},
                  {Py_tp_traverse, traverse},
                  {Py_tp_clear, clear},
                  {Py_tp_call, PyVectorcall_Call},
                  {Py_tp_getattro, get_attribute},
                  {Py_tp_repr, repr},
                  {Py_tp_methods, kMethods},
                  {Py_tp_getset, kProperties},
                  {Py_tp_members, kMembers}}) != 0)
    return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace weft
