// SPDX-License-Identifier: Apache-2.0
//
// weft._native.CodeImage, and the runtime's failure kinds and backtraces for Python.
#include "runtime/code_image.h"

#include <structmember.h>

#include <new>

#include "driver/devices/device_program.h"
#include "driver/python/python_module.h"
#include "module.h"
#include "python/type_object.h"
#include "runtime/failure.h"

namespace weft {
namespace {

struct PyCodeImage {
  PyObject base;
  weft_code_image* image;  // a reference
  weft_state* state;       // the image's own, or `bound`
  weft_state bound;        // used after bind()
  PyObject* name;          // str
  PyObject* symbols;       // dict of str to int
  PyObject* kernels;       // the compiler's facts about each kernel; a tuple
  PyObject* weak_references;
};

Type<PyCodeImage> g_type;

PyCodeImage* as_image(PyObject* object) { return reinterpret_cast<PyCodeImage*>(object); }

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_image(self)->symbols);
  Py_VISIT(as_image(self)->kernels);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_image(self)->symbols);
  Py_CLEAR(as_image(self)->kernels);
  return 0;
}

void release(PyObject* self) {
  PyCodeImage* image = as_image(self);
  clear(self);
  Py_XDECREF(image->name);
  if (image->image != nullptr) image->image->release();
}

// The value of a symbol, or 0 with KeyError (or TypeError for an entry that is not an address).
void* symbol_address(PyObject* symbols, PyObject* name) {
  PyObject* value = PyDict_GetItemWithError(symbols, name);
  if (value != nullptr) return PyLong_AsVoidPtr(value);
  if (PyErr_Occurred()) return nullptr;
  Reference names(PyMapping_Keys(symbols));
  Reference comma(PyUnicode_FromString(", "));
  Reference listed(names && comma ? PyUnicode_Join(comma.get(), names.get()) : nullptr);
  if (listed) PyErr_Format(PyExc_KeyError, "no symbol %R; the image exports %U", name, listed.get());
  return nullptr;
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"name", "symbols", "loaded", "load_policy", "kernels", "program", nullptr};
  PyObject *name, *symbols, *loaded, *kernels = nullptr, *program = Py_None;
  int load_policy;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UO!Oi|O!O:CodeImage", const_cast<char**>(kNames),
                                   &name, &PyDict_Type, &symbols, &loaded, &load_policy, &PyTuple_Type,
                                   &kernels, &program)) {
    return nullptr;
  }
  if (load_policy < WEFT_LOAD_CONTEXT || load_policy > WEFT_LOAD_TVM_FFI) {
    PyErr_Format(PyExc_ValueError, "CodeImage: load_policy is %d, expected 0, 1 or 2", load_policy);
    return nullptr;
  }
  DeviceProgram* device_program = nullptr;
  if (program != Py_None && (device_program = device_program_of(program)) == nullptr) return nullptr;
  Reference state_name(PyUnicode_FromString("weft_state"));
  if (!state_name) return nullptr;
  void* state_slot = nullptr;
  if (PyDict_Contains(symbols, state_name.get()) > 0) state_slot = symbol_address(symbols, state_name.get());
  if (PyErr_Occurred()) return nullptr;
  Reference self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  PyCodeImage* image = as_image(self.get());
  image->image = new (std::nothrow)
      weft_code_image(loaded, device_program, static_cast<weft_state**>(state_slot), load_policy);
  if (image->image == nullptr) return PyErr_NoMemory();
  image->state = image->image->default_state();
  image->name = Py_NewRef(name);
  image->symbols = Py_NewRef(symbols);
  image->kernels = kernels == nullptr ? PyTuple_New(0) : Py_NewRef(kernels);
  return image->kernels == nullptr ? nullptr : self.release();
}

// Stands for every function of an image whose kernels no driver here loads.
int32_t refuse_call(void* handle, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  const auto* state = static_cast<const weft_state*>(handle);
  if (state == nullptr)
    return raise_error("RuntimeError", "there is no driver here for this function's kernels");
  return raise_error("RuntimeError",
                     static_cast<const DeviceProgram*>(state->driver_state)->missing_driver());
}

PyObject* lookup(PyObject* self, PyObject* name) {
  void* address = symbol_address(as_image(self)->symbols, name);
  const auto* program = static_cast<const DeviceProgram*>(as_image(self)->state->driver_state);
  if (program != nullptr && !program->missing_driver().empty()) {
    address = reinterpret_cast<void*>(refuse_call);
  }
  return PyErr_Occurred() ? nullptr : PyLong_FromVoidPtr(address);
}

PyObject* bind(PyObject* self, PyObject* device) {
  const long ordinal = PyLong_AsLong(device);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  if (ordinal < -1 || ordinal > INT16_MAX) {
    PyErr_Format(PyExc_ValueError, "bind: device is %ld, expected an ordinal, or -1 for none", ordinal);
    return nullptr;
  }
  PyCodeImage* image = as_image(self);
  PyObject* copy = g_type.make();
  if (copy == nullptr) return nullptr;
  PyCodeImage* bound = as_image(copy);
  bound->image = image->image;
  bound->image->add_reference();
  bound->bound = image->image->make_state(static_cast<int32_t>(ordinal));
  bound->state = &bound->bound;
  bound->name = Py_NewRef(image->name);
  bound->symbols = Py_XNewRef(image->symbols);
  bound->kernels = Py_XNewRef(image->kernels);
  return copy;
}

PyObject* preload(PyObject* self, PyObject* device) {
  const long ordinal = PyLong_AsLong(device);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  const weft_state* state = as_image(self)->state;
  auto* program = static_cast<DeviceProgram*>(state->driver_state);
  if (program == nullptr) return PyDict_New();
  return preload_device_program(program, static_cast<int32_t>(ordinal), state->load_policy);
}

PyObject* code_handle(PyObject* self, PyObject* device) {
  const long ordinal = PyLong_AsLong(device);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  const weft_state* state = as_image(self)->state;
  auto* program = static_cast<DeviceProgram*>(state->driver_state);
  if (program == nullptr) Py_RETURN_NONE;
  return loaded_code_handle(program, static_cast<int32_t>(ordinal), state->load_policy);
}

PyObject* get_state(PyObject* self, void*) { return PyLong_FromVoidPtr(as_image(self)->state); }

PyObject* get_bound_device(PyObject* self, void*) {
  const int32_t device = as_image(self)->state->bound_device;
  if (device < 0) Py_RETURN_NONE;
  return PyLong_FromLong(device);
}

PyObject* get_load_policy(PyObject* self, void*) {
  return PyLong_FromLong(as_image(self)->state->load_policy);
}

// Ordinal → seconds, of the devices that the code was loaded on.
PyObject* get_load_times(PyObject* self, void*) {
  const weft_state* state = as_image(self)->state;
  const auto* program = static_cast<const DeviceProgram*>(state->driver_state);
  Reference times(PyDict_New());
  for (int32_t ordinal = 0; times && program != nullptr && ordinal < kMaxDevices; ++ordinal) {
    const LoadedProgram* loaded = program->loaded(state->load_policy, ordinal);
    if (loaded == nullptr) continue;
    Reference key(PyLong_FromLong(ordinal)), seconds(PyFloat_FromDouble(loaded->load_seconds));
    if (!key || !seconds || PyDict_SetItem(times.get(), key.get(), seconds.get()) != 0) return nullptr;
  }
  return times.release();
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<weft code image of %U>", as_image(self)->name);
}

PyMethodDef kMethods[] = {
    {"lookup", lookup, METH_O,
     "lookup(symbol)\n--\n\nThe address of an exported symbol, valid as long as the image lives. KeyError "
     "lists them."},
    {"bind", bind, METH_O,
     "bind(device)\n--\n\nAnother state over the same code, bound to a device's ordinal; -1 follows the "
     "arguments."},
    {"preload", preload, METH_O,
     "preload(device)\n--\n\nLoads the kernels on a device now; their handles by name, none on the CPU."},
    {"code_handle", code_handle, METH_O,
     "code_handle(device)\n--\n\nThe CUmodule or CUlibrary of the kernels on a device, loaded now; None on "
     "the CPU."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef kMembers[] = {
    {"name", T_OBJECT_EX, offsetof(PyCodeImage, name), READONLY, "The host function's name."},
    {"kernels", T_OBJECT, offsetof(PyCodeImage, kernels), READONLY, "Facts about each kernel."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyCodeImage, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"state", get_state, nullptr, "Address of the state: the `handle` of the image's functions.", nullptr},
    {"bound_device", get_bound_device, nullptr, "The ordinal it is bound to, or None.", nullptr},
    {"load_times", get_load_times, nullptr, "Ordinal of each device the code is on: seconds of loading.",
     nullptr},
    {"load_policy", get_load_policy, nullptr, "How kernels are loaded: enum weft_load_policy.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

const char kDoc[] =
    "CodeImage(name, symbols, loaded, load_policy, kernels=(), program=None)\n\n"
    "Linked code and its state; alive as long as it, or any function made from it, is.\n\n"
    "`symbols` maps names to addresses; `weft_state` among them is filled with the state. `loaded` keeps "
    "the\n"
    "code in memory, `program` is the DeviceProgram of the kernels, None on the CPU.";

PyObject* set_backtraces(PyObject*, PyObject* enabled) {
  const int truth = PyObject_IsTrue(enabled);
  if (truth < 0) return nullptr;
  set_error_backtraces(truth != 0);
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"set_error_backtraces", set_backtraces, METH_O,
     "set_error_backtraces(enabled)\n--\n\nSets whether errors of generated code carry a native backtrace."},
    {nullptr, nullptr, 0, nullptr},
};

// A tuple of names, in order, as an attribute of the module.
int add_names(PyObject* module, const char* attribute, const char* const* texts, Py_ssize_t count) {
  Reference names(PyTuple_New(count));
  if (!names) return -1;
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* name = PyUnicode_FromString(texts[index]);
    if (name == nullptr) return -1;
    PyTuple_SET_ITEM(names.get(), index, name);
  }
  return PyModule_AddObjectRef(module, attribute, names.get());
}

// FAILURE_KINDS: the names of enum weft_failure_kind, in order. CHECK_KINDS, CHECK_WORDS and CHECK_OPTIONS:
// the columns of WEFT_CHECK_KINDS.
int add_kinds(PyObject* module) {
#define WEFT_KIND(name, exception) #name,
  constexpr const char* kFailures[] = {WEFT_FAILURE_KINDS(WEFT_KIND)};
#undef WEFT_KIND
#define WEFT_KIND(name, words, check) #name,
  constexpr const char* kChecks[] = {WEFT_CHECK_KINDS(WEFT_KIND)};
#undef WEFT_KIND
#define WEFT_KIND(name, words, check) words,
  constexpr const char* kWords[] = {WEFT_CHECK_KINDS(WEFT_KIND)};
#undef WEFT_KIND
#define WEFT_KIND(name, words, check) check,
  constexpr const char* kOptions[] = {WEFT_CHECK_KINDS(WEFT_KIND)};
#undef WEFT_KIND
  const bool added = add_names(module, "FAILURE_KINDS", kFailures, WEFT_FAILURE_KIND_COUNT) == 0 &&
                     add_names(module, "CHECK_KINDS", kChecks, WEFT_CHECK_KIND_COUNT) == 0 &&
                     add_names(module, "CHECK_WORDS", kWords, WEFT_CHECK_KIND_COUNT) == 0 &&
                     add_names(module, "CHECK_OPTIONS", kOptions, WEFT_CHECK_KIND_COUNT) == 0;
  return added ? 0 : -1;
}

}  // namespace

int add_runtime(PyObject* module) {
  if (g_type.add(module, "weft._native.CodeImage", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                 {{Py_tp_doc, kDoc},
                  {Py_tp_new, create},
                  {Py_tp_dealloc, Type<PyCodeImage>::dealloc<release>},
                  {Py_tp_traverse, traverse},
                  {Py_tp_clear, clear},
                  {Py_tp_repr, repr},
                  {Py_tp_methods, kMethods},
                  {Py_tp_members, kMembers},
                  {Py_tp_getset, kProperties}}) != 0)
    return -1;
  if (add_kinds(module) != 0) return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace weft
