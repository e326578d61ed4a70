// SPDX-License-Identifier: Apache-2.0
//
// Each argument has a slot with the argument, its FFI value and everything the value borrows from. The
// arguments of a call are one block: its slots, and the values in the callee's order. Blocks and slots are
// reference-counted and immutable: a replaced one is freed with the last call that uses it, and a call takes
// one reference for any number of arguments. All of this needs the GIL.
#include "python/call/prepared_call.h"

#include <structmember.h>

#include <new>

#include "ffi_library.h"
#include "module.h"
#include "python/call/call.h"
#include "python/callbacks/deferred.h"
#include "python/readers/stream.h"
#include "python/type_object.h"

namespace weft {
namespace {

struct Slot {
  Py_ssize_t references;
  PyObject* argument;  // owned
  CallFrame frame;     // its scratch has the dims, the DLTensor and what must be released
  TVMFFIAny value;
};

struct Block {
  Py_ssize_t references;
  Py_ssize_t count;
  bool writes;               // into tensors of torch
  const Slot* asked;         // its tensor determines the stream; or nullptr
  const TypeEntry* tensors;  // of the first tensor
  Slot** slots;              // one reference each; these three arrays follow the block
  PyObject** arguments;      // borrowed from the slots
  TVMFFIAny* values;
};

struct PreparedCall {
  PyObject base;
  vectorcallfunc vectorcall;
  Function* function;
  Block* block;  // one reference; nullptr until made, and once the collector has cleared it
};

Type<PreparedCall> g_type;

PreparedCall* as_prepared(PyObject* object) { return reinterpret_cast<PreparedCall*>(object); }

void drop_slot(Slot* slot) {
  if (slot == nullptr || --slot->references != 0) return;
  PyObject* argument = slot->argument;
  delete slot;
  Py_DECREF(argument);
}

void drop_block(Block* block) {
  if (block == nullptr || --block->references != 0) return;
  for (Py_ssize_t index = 0; index < block->count; ++index) drop_slot(block->slots[index]);
  PyMem_Free(block);
}

// An empty block with room for `most` arguments; nullptr with MemoryError.
Block* make_block(Py_ssize_t most) {
  const auto size = static_cast<size_t>(most);
  const size_t bytes = sizeof(Block) + size * (sizeof(TVMFFIAny) + sizeof(Slot*) + sizeof(PyObject*));
  auto* block = static_cast<Block*>(PyMem_Malloc(bytes));
  if (block == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  *block = {1, 0, false, nullptr, nullptr, nullptr, nullptr, reinterpret_cast<TVMFFIAny*>(block + 1)};
  block->slots = reinterpret_cast<Slot**>(block->values + size);
  block->arguments = reinterpret_cast<PyObject**>(block->slots + size);
  return block;
}

// Takes over a reference to the slot. As in an ordinary call the first tensor on a device decides the stream,
// and the first tensor the library of results.
void append(Block* block, Slot* slot) {
  block->slots[block->count] = slot;
  block->arguments[block->count] = slot->argument;
  block->values[block->count] = slot->value;
  ++block->count;
  if (block->asked == nullptr && slot->frame.stream_asked) block->asked = slot;
  block->writes = block->writes || slot->frame.written != nullptr;
  if (block->tensors == nullptr) block->tensors = slot->frame.context.tensors;
}

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
  return slot;
}

PyObject* call_cleared(PyObject*, PyObject* const*, size_t, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError, "this prepared call has been garbage-collected");
  return nullptr;
}

// The tensor's library is asked again for each call.
int ask_stream(const CallFrame& asked, CallFrame& frame) {
  DLDevice device = asked.stream_source_device;
  bool found = false;
  if (current_stream(asked.stream_source, *asked.stream_entry, device, &frame.stream, &found) != 0) return -1;
  if (found) {
    frame.stream_device_type = device.device_type;
    frame.stream_device = device.device_id;
  }
  return 0;
}

// Counts the call's writes into torch's tensors, each of which is checked anew. 0, or -1 with an exception
// that names the argument.
int write_tensors(const Function* function, const Block* block, const CallFrame& frame) {
  for (Py_ssize_t index = 0; index < block->count; ++index) {
    const WrittenTensor* first = block->slots[index]->frame.written;
    for (const WrittenTensor* written = first; written != nullptr; written = written->next) {
      if (WEFT_LIKELY(check_written(written->tensor, *written->entry, written->counts) == 0)) continue;
      blame_argument(function, index, frame);
      return -1;
    }
  }
  for (Py_ssize_t index = 0; index < block->count; ++index) {
    if (count_writes(block->slots[index]->frame.written) != 0) return -1;
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
  // Replacing arguments, or the collector's clearing of `self`, may drop both during the call.
  Block* block = prepared->block;
  ++block->references;
  auto* function = reinterpret_cast<Function*>(Py_NewRef(&prepared->function->base));
  frame.context.tensors = block->tensors;
  PyObject* result = nullptr;
  const bool ready = !block->writes || write_tensors(function, block, frame) == 0;
  if (WEFT_LIKELY(ready && (block->asked == nullptr || ask_stream(block->asked->frame, frame) == 0))) {
    result = call_encoded(function, frame, block->arguments, block->values, block->count);
  }
  drop_block(block);
  Py_DECREF(&function->base);
  return result;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  PreparedCall* prepared = as_prepared(self);
  const Block* block = prepared->block;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(prepared->function);
  // If a running call holds the block, or an older one with the same slot, it is not the collector's.
  if (block == nullptr || block->references != 1) return 0;
  for (Py_ssize_t index = 0; index < block->count; ++index) {
    if (block->slots[index]->references == 1) Py_VISIT(block->arguments[index]);
  }
  return 0;
}

int clear(PyObject* self) {
  PreparedCall* prepared = as_prepared(self);
  prepared->vectorcall = call_cleared;
  Block* block = prepared->block;
  prepared->block = nullptr;
  drop_block(block);
  return 0;
}

void release(PyObject* self) {
  clear(self);
  Py_XDECREF(reinterpret_cast<PyObject*>(as_prepared(self)->function));
}

Py_ssize_t count_of(const PreparedCall* prepared) {
  return prepared->block == nullptr ? 0 : prepared->block->count;
}

// Checks the arguments against the signature, each and all together. 0, or -1 with an exception.
int check_block(const Function* function, const Block* block) {
  CallFrame frame;
  frame.context.tensors = block->tensors;
  return check_encoded(function, frame, block->values, block->count);
}

// Installs a block in which `made[i]`, if any, replaces slot i, after the signature's checks. Takes over the
// references of `made` in any case. 0, or -1 with an exception.
int install(PreparedCall* prepared, Slot** made) {
  Block* before = prepared->block;
  const Py_ssize_t count = before->count;
  Block* block = make_block(count);
  for (Py_ssize_t index = 0; index < count; ++index) {
    if (block == nullptr) {
      drop_slot(made[index]);
      continue;
    }
    Slot* slot = made[index] != nullptr ? made[index] : before->slots[index];
    if (made[index] == nullptr) ++slot->references;
    append(block, slot);
  }
  if (block == nullptr) return -1;
  if (check_block(prepared->function, block) != 0) {
    drop_block(block);
    return -1;
  }
  prepared->block = block;
  drop_block(before);  // which may run any code
  return 0;
}

Py_ssize_t length(PyObject* self) { return count_of(as_prepared(self)); }

// The position that an index names, negative ones from the end; -1 with an exception.
Py_ssize_t position_of(const PreparedCall* prepared, PyObject* key) {
  CallPlan* plan = prepared->function->plan;
  if (!PyIndex_Check(key)) {
    return refuse(PyExc_TypeError, "an argument of a prepared call has an int as index, received %s%s",
                  Py_TYPE(key)->tp_name, PyUnicode_Check(key) ? "; replace() takes names" : "");
  }
  Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) return -1;
  const Py_ssize_t count = count_of(prepared);
  Py_ssize_t position = index < 0 ? index + count : index;
  if (position >= 0 && position < count) return position;
  PyErr_Format(PyExc_IndexError, "argument %zd of %U, which has %zd", index, plan->signature, count);
  return -1;
}

PyObject* get_item(PyObject* self, PyObject* key) {
  const PreparedCall* prepared = as_prepared(self);
  Py_ssize_t index = position_of(prepared, key);
  return index < 0 ? nullptr : Py_NewRef(prepared->block->arguments[index]);
}

// Room for replacement slots, all empty; nullptr with MemoryError.
Slot** make_places(const PreparedCall* prepared) {
  auto* places =
      static_cast<Slot**>(PyMem_Calloc(static_cast<size_t>(count_of(prepared)) + 1, sizeof(Slot*)));
  if (places == nullptr) PyErr_NoMemory();
  return places;
}

// Like replace() of this argument alone.
int set_item(PyObject* self, PyObject* key, PyObject* value) {
  PreparedCall* prepared = as_prepared(self);
  if (value == nullptr) {
    return refuse(PyExc_TypeError, "an argument of a prepared call can be replaced but not deleted");
  }
  Py_ssize_t index = position_of(prepared, key);
  Slot** made = index < 0 ? nullptr : make_places(prepared);
  if (made == nullptr) return -1;
  made[index] = make_slot(prepared->function, index, value);
  const int failed = made[index] == nullptr ? -1 : install(prepared, made);
  PyMem_Free(made);
  return failed;
}

Py_ssize_t position_of_name(const PreparedCall* prepared, PyObject* name) {
  const CallPlan* plan = prepared->function->plan;
  for (Py_ssize_t index = 0; index < count_of(prepared); ++index) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(plan->parameters, index), name) == 0) return index;
  }
  PyErr_Format(PyExc_TypeError, "replace() got an unexpected keyword argument '%U'; signature: %U", name,
               plan->signature);
  return -1;
}

// All or none: every value is converted, and all are checked, before any is installed.
PyObject* replace(PyObject* self, PyObject* const* arguments, Py_ssize_t positional, PyObject* names) {
  PreparedCall* prepared = as_prepared(self);
  if (positional != 0) {
    PyErr_SetString(PyExc_TypeError, "replace() takes keyword arguments only");
    return nullptr;
  }
  const Py_ssize_t most = count_of(prepared);
  Slot** made = make_places(prepared);
  if (made == nullptr) return nullptr;
  bool complete = true;
  for (Py_ssize_t key = 0; complete && key < (names == nullptr ? 0 : PyTuple_GET_SIZE(names)); ++key) {
    Py_ssize_t index = position_of_name(prepared, PyTuple_GET_ITEM(names, key));
    if (index >= 0) made[index] = make_slot(prepared->function, index, arguments[key]);
    complete = index >= 0 && made[index] != nullptr;
  }
  if (complete) {
    complete = install(prepared, made) == 0;
  } else {
    for (Py_ssize_t index = 0; index < most; ++index) drop_slot(made[index]);
  }
  PyMem_Free(made);
  if (!complete) return nullptr;
  Py_RETURN_NONE;
}

PyObject* get_arguments(PyObject* self, void*) {
  const PreparedCall* prepared = as_prepared(self);
  const Py_ssize_t count = count_of(prepared);
  PyObject* result = PyTuple_New(count);
  if (result == nullptr) return nullptr;
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyTuple_SET_ITEM(result, index, Py_NewRef(prepared->block->arguments[index]));
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
     "Replaces the arguments with these names: all of them, or none if one is "
     "refused. The checks of a call are done at once."},
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

}  // namespace

PyObject* prepare_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  auto* function = reinterpret_cast<Function*>(callable);
  CallPlan* plan = function->plan;
  if (plan == nullptr || function->any_value) {
    PyErr_SetString(PyExc_TypeError,
                    "prepare() is for compiled functions: a foreign one may keep or change its arguments");
    return nullptr;
  }
  PreparedCall* prepared = as_prepared(g_type.make());
  Reference owner(reinterpret_cast<PyObject*>(prepared));
  if (!owner) return nullptr;
  prepared->vectorcall = call_prepared;
  prepared->function = reinterpret_cast<Function*>(Py_NewRef(callable));
  prepared->block = make_block(plan->count);
  const auto size = static_cast<size_t>(plan->count) + 1;
  auto* bound = static_cast<PyObject**>(PyMem_Calloc(size, sizeof(PyObject*)));
  if (bound == nullptr) PyErr_NoMemory();
  bool ready = prepared->block != nullptr && bound != nullptr;
  ready = ready && bind_arguments(*plan, arguments, count, keywords, bound) == 0;
  for (Py_ssize_t index = 0; ready && index < plan->count; ++index) {
    Slot* slot = make_slot(function, index, bound[index]);
    ready = slot != nullptr;
    if (ready) append(prepared->block, slot);
  }
  PyMem_Free(bound);
  return ready ? owner.release() : nullptr;
}

int add_prepared_call(PyObject* module) {
  return g_type.add(module, "weft._native.PreparedCall",
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    {{Py_tp_dealloc, Type<PreparedCall>::dealloc<release>},
                     {Py_tp_traverse, traverse},
                     {Py_tp_clear, clear},
                     {Py_tp_call, PyVectorcall_Call},
                     {Py_tp_repr, repr},
                     {Py_mp_length, length},
                     {Py_mp_subscript, get_item},
                     {Py_mp_ass_subscript, set_item},
                     {Py_tp_methods, kMethods},
                     {Py_tp_getset, kProperties},
                     {Py_tp_members, kMembers}});
}

}  // namespace weft
