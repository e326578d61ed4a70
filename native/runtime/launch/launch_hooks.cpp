// SPDX-License-Identifier: Apache-2.0
//
// The hooks and their argument: numbers copied from the launch, made into Python objects on request.
#include "runtime/launch/launch_hooks.h"

#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "ffi_library.h"
#include "module.h"
#include "python/callbacks/deferred.h"
#include "python/errors/foreign_error.h"
#include "python/gil.h"
#include "python/type_object.h"

namespace weft {

std::atomic<bool> g_has_launch_hooks{false};
std::atomic<bool> g_has_launch_observer{false};

namespace {

// The GIL guards these; each is owned, nullptr where unset.
struct Hooks {
  PyObject* enter;
  PyObject* exit;
  PyObject* compute;  // more metadata, computed from the launch's
};
Hooks g_hooks{nullptr, nullptr, nullptr};

// Called as begin(metadata), whose result is passed to end(result, has_succeeded). Guarded by the GIL, owned.
struct Observer {
  PyObject* begin;
  PyObject* end;
};
Observer g_observer{nullptr, nullptr};

struct Metadata {
  PyObject_HEAD std::string* kernel;  // owned, like the attributes
  std::vector<weft_launch_attribute>* attributes;
  int64_t grid[3];
  int64_t block[3];
  int64_t shared_memory_bytes;
  void* stream;
  int32_t device_type;
  int32_t device;
  PyObject* compute;   // owned, or nullptr: nothing more to compute
  PyObject* computed;  // the dict of get(), or nullptr
};

Type<Metadata> g_type;

Metadata* as_metadata(PyObject* object) { return reinterpret_cast<Metadata*>(object); }

// ---- the record that a hook reads

PyObject* triple(const int64_t* sizes) {
  return Py_BuildValue("(LLL)", static_cast<long long>(sizes[0]), static_cast<long long>(sizes[1]),
                       static_cast<long long>(sizes[2]));
}

PyObject* get_kernel(PyObject* self, void*) {
  const std::string& name = *as_metadata(self)->kernel;
  return PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace");
}

PyObject* get_device(PyObject* self, void*) {
  const Metadata* metadata = as_metadata(self);
  if (metadata->device_type == kDLCPU) return PyUnicode_FromString("cpu");
  return PyUnicode_FromFormat("cuda:%d", int{metadata->device});
}

PyObject* get_grid(PyObject* self, void*) { return triple(as_metadata(self)->grid); }
PyObject* get_block(PyObject* self, void*) { return triple(as_metadata(self)->block); }
PyObject* get_stream(PyObject* self, void*) { return PyLong_FromVoidPtr(as_metadata(self)->stream); }

PyObject* get_shared_memory_bytes(PyObject* self, void*) {
  return PyLong_FromLongLong(as_metadata(self)->shared_memory_bytes);
}

PyObject* get_attributes(PyObject* self, void*) {
  const std::vector<weft_launch_attribute>& attributes = *as_metadata(self)->attributes;
  Reference result(PyTuple_New(static_cast<Py_ssize_t>(attributes.size())));
  if (!result) return nullptr;
  for (size_t index = 0; index < attributes.size(); ++index) {
    const auto* value = reinterpret_cast<const char*>(attributes[index].value);
    PyObject* pair = Py_BuildValue("(Iy#)", attributes[index].id, value,
                                   static_cast<Py_ssize_t>(sizeof(attributes[index].value)));
    if (pair == nullptr) return nullptr;
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(index), pair);
  }
  return result.release();
}

PyGetSetDef kProperties[] = {
    {"kernel", get_kernel, nullptr, "The kernel's name.", nullptr},
    {"device", get_device, nullptr, "``\"cuda:0\"`` or ``\"cpu\"``.", nullptr},
    {"grid", get_grid, nullptr, "Blocks in x, y and z.", nullptr},
    {"block", get_block, nullptr, "Threads in x, y and z.", nullptr},
    {"shared_memory_bytes", get_shared_memory_bytes, nullptr, "Dynamic shared memory of a block.", nullptr},
    {"stream", get_stream, nullptr, "The CUstream as a number; 0 is the default stream.", nullptr},
    {"attributes", get_attributes, nullptr, "The launch attributes: (id, 64 bytes) each.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* call_hook(PyObject* hook, PyObject* metadata) {
  return or_wait_for_the_end([=] { return PyObject_CallOneArg(hook, metadata); });
}

// Everything as a dict, with the user function's additions; computed on the first call and kept.
PyObject* get_all(PyObject* self, PyObject*) {
  Metadata* metadata = as_metadata(self);
  if (metadata->computed != nullptr) return Py_NewRef(metadata->computed);
  Reference all(PyDict_New());
  for (const PyGetSetDef* property = kProperties; all && property->name != nullptr; ++property) {
    Reference value(property->get(self, nullptr));
    if (!value || PyDict_SetItemString(all.get(), property->name, value.get()) != 0) return nullptr;
  }
  if (!all) return nullptr;
  if (metadata->compute != nullptr) {
    Reference more(call_hook(metadata->compute, self));
    if (!more || PyDict_Update(all.get(), more.get()) != 0) return nullptr;
  }
  metadata->computed = Py_NewRef(all.get());
  return all.release();
}

void release(PyObject* self) {
  Metadata* metadata = as_metadata(self);
  delete metadata->kernel;
  delete metadata->attributes;
  Py_XDECREF(metadata->compute);
  Py_XDECREF(metadata->computed);
}

PyObject* repr(PyObject* self) {
  Reference kernel(get_kernel(self, nullptr)), device(get_device(self, nullptr));
  Reference grid(get_grid(self, nullptr)), block(get_block(self, nullptr));
  if (!kernel || !device || !grid || !block) return nullptr;
  return PyUnicode_FromFormat("<launch of %U on %U, grid=%S, block=%S>", kernel.get(), device.get(),
                              grid.get(), block.get());
}

PyObject* make_metadata(const LaunchFacts& facts) {
  PyObject* self = g_type.make();
  if (self == nullptr) return nullptr;
  Metadata* metadata = as_metadata(self);
  const weft_launch& launch = *facts.launch;
  const auto count = static_cast<size_t>(launch.attribute_count > 0 ? launch.attribute_count : 0);
  metadata->kernel = new (std::nothrow) std::string(facts.kernel);
  metadata->attributes =
      new (std::nothrow) std::vector<weft_launch_attribute>(launch.attributes, launch.attributes + count);
  if (metadata->kernel == nullptr || metadata->attributes == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  memcpy(metadata->grid, launch.grid, sizeof(launch.grid));
  memcpy(metadata->block, launch.block, sizeof(launch.block));
  metadata->shared_memory_bytes = launch.shared_memory_bytes;
  metadata->stream = facts.stream;
  metadata->device_type = facts.device_type;
  metadata->device = facts.device;
  metadata->compute = Py_XNewRef(g_hooks.compute);
  return self;
}

// ---- calling them

// After a failed launch: the hook's own exception must not hide the launch's, which is an FFI error or a
// pending exception, as after Ctrl-C.
template <typename Call>
void call_after_failure(PyObject* hook, Call call) {
  TVMFFIObjectHandle error = nullptr;
  ffi().error_move_from_raised(&error);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Reference result(call());
  if (!result) PyErr_WriteUnraisable(hook);
  if (type != nullptr) PyErr_Restore(type, value, traceback);
  if (error == nullptr) return;
  ffi().error_set_raised(error);
  ffi().object_dec_ref(error);
}

int32_t perform_observed(PyObject* metadata, int32_t (*perform)(void*), void* data) {
  Reference begin(Py_XNewRef(g_observer.begin)), end(Py_XNewRef(g_observer.end));
  if (!begin || !end) return perform(data);
  Reference seen(call_hook(begin.get(), metadata));
  if (!seen) return raise_into_ffi();
  const int32_t code = perform(data);
  auto tell = [&] {
    return or_wait_for_the_end([&] {
      return PyObject_CallFunctionObjArgs(end.get(), seen.get(), code == 0 ? Py_True : Py_False, nullptr);
    });
  };
  if (code != 0) {
    call_after_failure(end.get(), tell);
    return code;
  }
  Reference result(tell());
  return result ? 0 : raise_into_ffi();
}

int32_t call_hooks(const LaunchFacts& facts, int32_t (*perform)(void*), void* data) {
  // Held, since a hook may replace the hooks.
  Reference enter(Py_XNewRef(g_hooks.enter)), exit(Py_XNewRef(g_hooks.exit));
  Reference metadata(make_metadata(facts));
  if (!metadata) return raise_into_ffi();
  if (enter) {
    Reference result(call_hook(enter.get(), metadata.get()));
    if (!result) return raise_into_ffi();
  }
  const int32_t code = perform_observed(metadata.get(), perform, data);
  if (!exit) return code;
  auto tell = [&] { return call_hook(exit.get(), metadata.get()); };
  if (code != 0) {
    call_after_failure(exit.get(), tell);
    return code;
  }
  Reference result(tell());
  return result ? 0 : raise_into_ffi();
}

void update_flags() {
  const bool is_observed = g_observer.begin != nullptr;
  g_has_launch_observer.store(is_observed, std::memory_order_relaxed);
  g_has_launch_hooks.store(is_observed || g_hooks.enter != nullptr || g_hooks.exit != nullptr,
                           std::memory_order_relaxed);
}

// None means no hook.
void replace(PyObject** place, PyObject* value) {
  PyObject* previous = *place;
  *place = value == Py_None ? nullptr : Py_NewRef(value);
  Py_XDECREF(previous);
}

// set_launch_observer(begin, end): both callables, or both None.
PyObject* set_launch_observer(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "expected 2 arguments, received %zd", count);
  replace(&g_observer.begin, values[0]);
  replace(&g_observer.end, values[1]);
  update_flags();
  Py_RETURN_NONE;
}

// set_launch_hooks(enter, exit, compute): each a callable or None.
PyObject* set_launch_hooks(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "expected 3 arguments, received %zd", count);
  PyObject** places[] = {&g_hooks.enter, &g_hooks.exit, &g_hooks.compute};
  for (Py_ssize_t index = 0; index < count; ++index) {
    replace(places[index], values[index]);
  }
  update_flags();
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"get", get_all, METH_NOARGS,
     "get()\n--\n\nEverything as a dict, with the additions of set_launch_hooks' `metadata`, computed once."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef kFunctions[] = {
    {"set_launch_hooks", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_launch_hooks)),
     METH_FASTCALL, "set_launch_hooks(enter, exit, compute)\n--\n\nSee weft.driver.set_launch_hooks."},
    {"set_launch_observer", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_launch_observer)),
     METH_FASTCALL,
     "set_launch_observer(begin, end)\n--\n\n"
     "Sets the observer of every launch, inside the user's hooks: begin(metadata) before, end(begin's "
     "result,\n"
     "has_succeeded) after. None for both removes it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int32_t launch_between_hooks(const LaunchFacts& facts, int32_t (*perform)(void* data), void* data) {
  if (!interpreter_is_usable()) return perform(data);
  HeldGil gil;
  // A pending exception of the caller is not the hooks'.
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const int32_t code = call_hooks(facts, perform, data);
  // The launch's own pending exception, such as a KeyboardInterrupt, stays.
  if (type != nullptr) PyErr_Restore(type, value, traceback);
  return code;
}

int32_t launch_observed(const LaunchFacts& facts, int32_t (*perform)(void* data), void* data) {
  Reference metadata(make_metadata(facts));
  return metadata ? perform_observed(metadata.get(), perform, data) : raise_into_ffi();
}

int add_launch_hooks(PyObject* module) {
  if (g_type.add(module, "weft._native.LaunchMetadata",
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                 {{Py_tp_doc, "One launch, as seen by hooks; attributes are computed on request."},
                  {Py_tp_dealloc, Type<Metadata>::dealloc<release>},
                  {Py_tp_repr, repr},
                  {Py_tp_methods, kMethods},
                  {Py_tp_getset, kProperties}}) != 0)
    return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace weft
