// SPDX-License-Identifier: Apache-2.0
//
// Each argument has a slot that holds the argument, its FFI value and all that the value borrows from. Slots
// are counted and never changed: a replaced one goes with the last call that began with it. All of this is
// done with the GIL held.
#include "python/prepared_call.h"

#include <structmember.h>

#include <new>

#include "ffi_library.h"
#include "module.h"
#include "python/call.h"
#include "python/deferred.h"
#include "python/stream.h"

namespace weft {
namespace {

constexpr Py_ssize_t kInlineSlots = 12;

struct Slot {
  Py_ssize_t references;
  PyObject* argument;  // owned
  CallFrame frame;     // its scratch has the dims, the DLTensor and what must be given back
  TVMFFIAny value;
};

struct PreparedCall {
  PyObject base;
  vectorcallfunc vectorcall;
  Function* function;
  Slot** slots;
  Py_ssize_t count;
};

PyTypeObject* g_type = nullptr;

PreparedCall* as_prepared(PyObject* object) { return reinterpret_cast<PreparedCall*>(object); }

void drop_slot(Slot* slot) {
  if (slot == nullptr || --slot->references != 0) return;
  PyObject* argument = slot->argument;
  delete slot;
  Py_DECREF(argument);
}

void drop_ffi_object(void* object) { ffi().object_dec_ref(object); }

// An argument in a slot of its own, or nullptr with an exception that names it.
Slot* make_slot(const Function* function, Py_ssize_t index, PyObject* argument) {
  const CallPlan* plan = function->plan;
  Slot* slot = new (std::nothrow) Slot;
  if (slot == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  slot->references = 1;
  slot->argument = Py_NewRef(argument);
  CallFrame& frame = slot->frame;
  frame.owned_tensors = function->owned_tensors;
  frame.prepared = argument;
  uint8_t flags = plan->flags[index];
  if ((flags & kArgumentItems) != 0) frame.items = PyTuple_GET_ITEM(plan->items, index);
  const TypeEntry* entry = find_type(argument);
  if (entry == nullptr || encode_argument(argument, *entry, flags, frame, &slot->value) != 0) {
    blame_argument(function, index, frame);
    drop_slot(slot);
    return nullptr;
  }
  // An object that a Python object stands for may be released or moved from while this call is kept.
  if (slot->value.type_index >= kTVMFFIStaticObjectBegin) {
    ffi().object_inc_ref(slot->value.v_obj);
    if (frame.scratch.at_end(drop_ffi_object, slot->value.v_obj) != 0) {
      drop_slot(slot);
      return nullptr;
    }
  }
  return slot;
}

PyObject* call_cleared(PyObject*, PyObject* const*, size_t, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError, "this prepared call has been garbage-collected");
  return nullptr;
}

// What one call needs of the slots, so that they can be replaced while it is under way.
struct Borrowed {
  Slot* slots[kInlineSlots];
  PyObject* arguments[kInlineSlots];
  TVMFFIAny values[kInlineSlots];
};

struct Begun {
  Slot** slots;
  PyObject** arguments;
  TVMFFIAny* values;
};

int begin(const PreparedCall* prepared, Borrowed* room, CallFrame& frame, Begun* call) {
  *call = {room->slots, room->arguments, room->values};
  if (WEFT_UNLIKELY(prepared->count > kInlineSlots)) {
    auto count = static_cast<size_t>(prepared->count);
    *call = {frame.scratch.take_array<Slot*>(count), frame.scratch.take_array<PyObject*>(count),
             frame.scratch.take_array<TVMFFIAny>(count)};
    if (call->slots == nullptr || call->arguments == nullptr || call->values == nullptr) return -1;
  }
  for (Py_ssize_t index = 0; index < prepared->count; ++index) {
    Slot* slot = prepared->slots[index];
    ++slot->references;
    call->slots[index] = slot;
    call->arguments[index] = slot->argument;
    call->values[index] = slot->value;
    if (frame.context.tensors == nullptr) frame.context.tensors = slot->frame.context.tensors;
  }
  return 0;
}

// As for an ordinary call the first tensor on a device decides, and it is asked anew each time.
int ask_stream(const Slot* const* slots, Py_ssize_t count, CallFrame& frame) {
  for (Py_ssize_t index = 0; index < count; ++index) {
    const CallFrame& asked = slots[index]->frame;
    if (!asked.stream_asked) continue;
    DLDevice device = asked.stream_source_device;
    bool found = false;
    if (current_stream(asked.stream_source, *asked.stream_entry, device, &frame.stream, &found) != 0) {
      return -1;
    }
    if (found) {
      frame.stream_device_type = device.device_type;
      frame.stream_device = device.device_id;
    }
    return 0;
  }
  return 0;
}

PyObject* call_prepared(PyObject* self, PyObject* const*, size_t count_and_flags, PyObject* keywords) {
  const PreparedCall* prepared = as_prepared(self);
  if (WEFT_UNLIKELY(PyVectorcall_NARGS(count_and_flags) != 0 ||
                    (keywords != nullptr && PyTuple_GET_SIZE(keywords) != 0))) {
    PyErr_Format(PyExc_TypeError,
                 "a prepared call of %U takes no arguments; replace() or an assignment to an index gives it "
                 "others",
                 prepared->function->plan->signature);
    return nullptr;
  }
  drain_deferred();
  CallFrame frame;
  Borrowed room;
  Begun call;
  if (begin(prepared, &room, frame, &call) != 0) return nullptr;
  Py_ssize_t count = prepared->count;
  // The collector may clear `self` while the call is under way.
  auto* function = reinterpret_cast<Function*>(Py_NewRef(&prepared->function->base));
  PyObject* result = nullptr;
  if (WEFT_LIKELY(ask_stream(call.slots, count, frame) == 0)) {
    result = call_encoded(function, frame, call.arguments, call.values, count);
  }
  for (Py_ssize_t index = 0; index < count; ++index) drop_slot(call.slots[index]);
  Py_DECREF(&function->base);
  return result;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  PreparedCall* prepared = as_prepared(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(prepared->function);
  for (Py_ssize_t index = 0; index < prepared->count; ++index) {
    // A call under way holds the slot too: then its argument is not the collector's to take.
    if (prepared->slots[index]->references == 1) Py_VISIT(prepared->slots[index]->argument);
  }
  return 0;
}

int clear(PyObject* self) {
  PreparedCall* prepared = as_prepared(self);
  prepared->vectorcall = call_cleared;
  Slot** slots = prepared->slots;
  Py_ssize_t count = prepared->count;
  prepared->slots = nullptr;
  prepared->count = 0;
  for (Py_ssize_t index = 0; index < count; ++index) drop_slot(slots[index]);
  PyMem_Free(slots);
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_XDECREF(reinterpret_cast<PyObject*>(as_prepared(self)->function));
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

void install(PreparedCall* prepared, Py_ssize_t index, Slot* slot) {
  Slot* previous = prepared->slots[index];
  prepared->slots[index] = slot;
  drop_slot(previous);
}

Py_ssize_t length(PyObject* self) { return as_prepared(self)->count; }

// The position that an index names, negative ones from the end; -1 with an exception.
Py_ssize_t position_of(const PreparedCall* prepared, PyObject* key) {
  CallPlan* plan = prepared->function->plan;
  if (!PyIndex_Check(key)) {
    return refuse(PyExc_TypeError, "an argument of a prepared call has an int as index, received %s%s",
                  Py_TYPE(key)->tp_name, PyUnicode_Check(key) ? "; replace() takes names" : "");
  }
  Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) return -1;
  Py_ssize_t position = index < 0 ? index + prepared->count : index;
  if (position >= 0 && position < prepared->count) return position;
  PyErr_Format(PyExc_IndexError, "argument %zd of %U, which has %zd", index, plan->signature,
               prepared->count);
  return -1;
}

PyObject* get_item(PyObject* self, PyObject* key) {
  const PreparedCall* prepared = as_prepared(self);
  Py_ssize_t index = position_of(prepared, key);
  return index < 0 ? nullptr : Py_NewRef(prepared->slots[index]->argument);
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  PreparedCall* prepared = as_prepared(self);
  if (value == nullptr) {
    return refuse(PyExc_TypeError, "an argument of a prepared call can be replaced but not deleted");
  }
  Py_ssize_t index = position_of(prepared, key);
  if (index < 0) return -1;
  Slot* slot = make_slot(prepared->function, index, value);
  if (slot == nullptr) return -1;
  install(prepared, index, slot);
  return 0;
}

Py_ssize_t position_of_name(const PreparedCall* prepared, PyObject* name) {
  const CallPlan* plan = prepared->function->plan;
  for (Py_ssize_t index = 0; index < prepared->count; ++index) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(plan->parameters, index), name) == 0) return index;
  }
  PyErr_Format(PyExc_TypeError, "replace() got an unexpected keyword argument '%U'; signature: %U", name,
               plan->signature);
  return -1;
}

// All or none: every value is converted before the first one is put in place.
PyObject* replace(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) {
  PreparedCall* prepared = as_prepared(self);
  if (positional != 0) {
    PyErr_SetString(PyExc_TypeError, "replace() takes the new values by keyword only");
    return nullptr;
  }
  Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  auto* made = static_cast<Slot**>(PyMem_Calloc(static_cast<size_t>(count) + 1, sizeof(Slot*)));
  if (made == nullptr) return PyErr_NoMemory();
  Py_ssize_t ready = 0;
  for (; ready < count; ++ready) {
    Py_ssize_t index = position_of_name(prepared, PyTuple_GET_ITEM(names, ready));
    if (index >= 0) made[ready] = make_slot(prepared->function, index, arguments[ready]);
    if (made[ready] == nullptr) break;
  }
  bool complete = ready == count;
  // Exchanged without running anything in between; what is left in `made` is dropped after.
  for (Py_ssize_t key = 0; complete && key < count; ++key) {
    Py_ssize_t index = position_of_name(prepared, PyTuple_GET_ITEM(names, key));
    Slot* previous = prepared->slots[index];
    prepared->slots[index] = made[key];
    made[key] = previous;
  }
  for (Py_ssize_t key = 0; key < count; ++key) drop_slot(made[key]);
  PyMem_Free(made);
  if (!complete) return nullptr;
  Py_RETURN_NONE;
}

PyObject* get_arguments(PyObject* self, void*) {
  const PreparedCall* prepared = as_prepared(self);
  PyObject* result = PyTuple_New(prepared->count);
  if (result == nullptr) return nullptr;
  for (Py_ssize_t index = 0; index < prepared->count; ++index) {
    PyTuple_SET_ITEM(result, index, Py_NewRef(prepared->slots[index]->argument));
  }
  return result;
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<weft prepared call of %U>", as_prepared(self)->function->plan->signature);
}

PyMethodDef kMethods[] = {
    {"replace", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(replace)),
     METH_FASTCALL | METH_KEYWORDS,
     "replace(**arguments)\n--\n\n"
     "Put other arguments in the place of those with these names: all of them, or none where one is "
     "refused."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"arguments", get_arguments, nullptr, "The arguments of the next call, in the order of the parameters.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PreparedCall, vectorcall), READONLY, nullptr},
    {"function", T_OBJECT, offsetof(PreparedCall, function), READONLY, "The function that it calls."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_mp_length, reinterpret_cast<void*>(length)},
    {Py_mp_subscript, reinterpret_cast<void*>(get_item)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(set_item)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_members, kMembers},
    {0, nullptr},
};

PyType_Spec kSpec = {"weft._native.PreparedCall", sizeof(PreparedCall), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                         Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                     kSlots};

}  // namespace

PyObject* prepare_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  auto* function = reinterpret_cast<Function*>(callable);
  CallPlan* plan = function->plan;
  if (plan == nullptr || function->any_value) {
    PyErr_SetString(PyExc_TypeError,
                    "prepare() is for compiled functions: a foreign one may keep or change what it is given");
    return nullptr;
  }
  PreparedCall* prepared = as_prepared(g_type->tp_alloc(g_type, 0));
  Reference owner(reinterpret_cast<PyObject*>(prepared));
  if (!owner) return nullptr;
  prepared->vectorcall = call_prepared;
  prepared->function = reinterpret_cast<Function*>(Py_NewRef(callable));
  auto size = static_cast<size_t>(plan->count) + 1;
  prepared->slots = static_cast<Slot**>(PyMem_Calloc(size, sizeof(Slot*)));
  auto* bound = static_cast<PyObject**>(PyMem_Calloc(size, sizeof(PyObject*)));
  bool ready = prepared->slots != nullptr && bound != nullptr;
  if (!ready) PyErr_NoMemory();
  ready = ready && bind_arguments(*plan, arguments, count, keywords, bound) == 0;
  for (Py_ssize_t index = 0; ready && index < plan->count; ++index) {
    Slot* slot = make_slot(function, index, bound[index]);
    ready = slot != nullptr;
    if (!ready) break;
    prepared->slots[index] = slot;
    prepared->count = index + 1;
  }
  PyMem_Free(bound);
  return ready ? owner.release() : nullptr;
}

int add_prepared_call(PyObject* module) {
  if (g_type == nullptr) g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (g_type == nullptr) return -1;
  return PyModule_AddObjectRef(module, "PreparedCall", reinterpret_cast<PyObject*>(g_type));
}

}  // namespace weft
