// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Launch: `kernel[grid, block]` and `kernel.over(n)`, called with the kernel's arguments.
//
// A launch whose sizes are plain ints in range, of a kernel with a generated host function, is made here; any
// other by the kernel's own `_launch_in_python`, which also makes the calls that are not known.
#include <structmember.h>

#include <initializer_list>
#include <limits>
#include <utility>

#include "module.h"
#include "python/call/direct_call.h"
#include "python/common.h"
#include "python/type_object.h"
#include "python/values/encode/encode.h"
#include "runtime/launch/launch_limits.h"

namespace weft {
namespace {

constexpr Py_ssize_t kMostSizes = 3;
constexpr Py_ssize_t kMostArguments = 32;  // of a call; with more Python makes it

struct Launch {
  PyObject base;
  vectorcallfunc vectorcall;
  PyObject* kernel;         // owned: a StagedFunction
  PyObject* configuration;  // owned: as the user gave it
  uint8_t kind;             // a LaunchKind
  Py_ssize_t count;
  PyObject* sizes[kMostSizes];  // owned: arguments of the generated host function
};

Type<Launch> g_type;

Launch* as_launch(PyObject* object) { return reinterpret_cast<Launch*>(object); }
StagedFunction* as_staged(PyObject* object) { return reinterpret_cast<StagedFunction*>(object); }

// An exact int from 0 to INT64_MAX, or -1 without an exception.
int64_t plain_size(PyObject* object) {
  if (!PyLong_CheckExact(object)) return -1;
  if (WEFT_LIKELY(is_small_int(object))) return small_int_value(object) < 0 ? -1 : small_int_value(object);
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow != 0 || value < 0 ? -1 : value;
}

// (x, y, z) of an int or up to three, if they are in range: a new reference, or nullptr, perhaps with
// MemoryError.
PyObject* plain_sizes(PyObject* given, int64_t least, const int64_t (&most)[3], int64_t most_of_all) {
  const bool is_tuple = PyTuple_CheckExact(given);
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(given) : 1;
  if (count < 1 || count > 3) return nullptr;
  int64_t sizes[3] = {1, 1, 1};
  int64_t product = 1;
  for (Py_ssize_t axis = 0; axis < count; ++axis) {
    sizes[axis] = plain_size(is_tuple ? PyTuple_GET_ITEM(given, axis) : given);
    if (sizes[axis] < least || sizes[axis] > most[axis]) return nullptr;
    product *= sizes[axis];  // at most 2**63 - 2**47 by the limits of a grid
  }
  if (product > most_of_all) return nullptr;
  if (count == 3) return Py_NewRef(given);
  Reference y(PyLong_FromLongLong(sizes[1]));
  Reference one(y ? PyLong_FromLong(1) : nullptr);
  PyObject* x = is_tuple ? PyTuple_GET_ITEM(given, 0) : given;
  return one ? PyTuple_Pack(3, x, y.get(), one.get()) : nullptr;
}

// The same, kept for the next launch with this very object.
PyObject* kept_sizes(SizesOfOne& last, PyObject* given, int64_t least, const int64_t (&most)[3],
                     int64_t most_of_all) {
  if (WEFT_LIKELY(last.given == given)) return Py_NewRef(last.sizes);
  PyObject* sizes = plain_sizes(given, least, most, most_of_all);
  if (sizes == nullptr) return nullptr;
  Py_XSETREF(last.given, Py_NewRef(given));
  Py_XSETREF(last.sizes, Py_NewRef(sizes));
  return sizes;
}

// The number of iterations of an int or the product of several: a new reference, or nullptr as above.
PyObject* plain_iterations(PyObject* given) {
  if (!PyTuple_CheckExact(given)) return plain_size(given) < 0 ? nullptr : Py_NewRef(given);
  int64_t product = 1;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(given); ++index) {
    const int64_t size = plain_size(PyTuple_GET_ITEM(given, index));
    if (size < 0 || __builtin_mul_overflow(product, size, &product)) return nullptr;
  }
  return PyLong_FromLongLong(product);
}

PyObject* call_launch(PyObject* self, PyObject* const* arguments, size_t count_and_flags, PyObject* keywords);

Launch* g_spare = nullptr;  // memory of a launch that ended, without references

Launch* new_launch() {
  if (g_spare == nullptr) return as_launch(g_type.make());
  PyObject* launch = PyObject_Init(&std::exchange(g_spare, nullptr)->base, g_type.get());
  PyObject_GC_Track(launch);
  return as_launch(launch);
}

// Takes over the sizes, each of which may be nullptr: then there is no launch.
PyObject* make_launch(PyObject* kernel, PyObject* configuration, int kind,
                      std::initializer_list<PyObject*> sizes) {
  bool complete = true;
  for (PyObject* size : sizes) complete = complete && size != nullptr;
  Launch* launch = complete ? new_launch() : nullptr;
  if (launch == nullptr) {
    for (PyObject* size : sizes) Py_XDECREF(size);
    return nullptr;
  }
  launch->vectorcall = call_launch;
  launch->kernel = Py_NewRef(kernel);
  launch->configuration = Py_NewRef(configuration);
  launch->kind = static_cast<uint8_t>(kind);
  for (PyObject* size : sizes) launch->sizes[launch->count++] = size;
  return &launch->base;
}

// The launch in the class's own way, which words errors.
PyObject* launch_in_python(PyObject* kernel, PyObject* configuration, bool is_over) {
  return PyObject_CallMethod(kernel, is_over ? "_over_in_python" : "_launch_in_python", "(O)", configuration);
}

// Whether launches of this kind may be made here.
bool is_ready(PyObject* kernel, int kind) {
  return PyObject_TypeCheck(kernel, staged_function_type()) && as_staged(kernel)->hosts[kind].host != nullptr;
}

PyObject* launch_on(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 2) {
    refuse(PyExc_TypeError, "launch_on: expected a kernel and a configuration");
    return nullptr;
  }
  PyObject *kernel = given[0], *configuration = given[1];
  const Py_ssize_t items = PyTuple_CheckExact(configuration) ? PyTuple_GET_SIZE(configuration) : 0;
  PyObject* stream = items == 3 ? PyTuple_GET_ITEM(configuration, 2) : Py_None;
  const int kind = stream == Py_None ? kOnGrid : kOnGrid | kOnStream;
  if ((items == 2 || items == 3) && is_ready(kernel, kind)) {
    auto& last = as_staged(kernel)->hosts[kind].last;
    PyObject* grid = kept_sizes(last[0], PyTuple_GET_ITEM(configuration, 0), 0, kMostGrid,
                                std::numeric_limits<int64_t>::max());
    PyObject* block = grid == nullptr ? nullptr
                                      : kept_sizes(last[1], PyTuple_GET_ITEM(configuration, 1), 1, kMostBlock,
                                                   kMostThreads);
    PyObject* launch = kind == kOnGrid
                           ? make_launch(kernel, configuration, kind, {grid, block})
                           : make_launch(kernel, configuration, kind, {grid, block, Py_NewRef(stream)});
    if (launch != nullptr || PyErr_Occurred()) return launch;
  }
  return launch_in_python(kernel, configuration, false);
}

PyObject* launch_over(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 2) {
    refuse(PyExc_TypeError, "launch_over: expected a kernel and a number of iterations");
    return nullptr;
  }
  if (is_ready(given[0], kOver)) {
    PyObject* launch = make_launch(given[0], given[1], kOver, {plain_iterations(given[1])});
    if (launch != nullptr || PyErr_Occurred()) return launch;
  }
  return launch_in_python(given[0], given[1], true);
}

// The keywords of the call and, after them, the first names of the launch's arguments: a new reference.
PyObject* all_names(PyObject* keywords, PyObject* names, Py_ssize_t count) {
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  if (named == 0 && PyTuple_GET_SIZE(names) == count) return Py_NewRef(names);
  PyObject* all = PyTuple_New(named + count);
  for (Py_ssize_t index = 0; all != nullptr && index < named + count; ++index) {
    PyObject* name =
        index < named ? PyTuple_GET_ITEM(keywords, index) : PyTuple_GET_ITEM(names, index - named);
    PyTuple_SET_ITEM(all, index, Py_NewRef(name));
  }
  return all;
}

// As `call_known`.
bool call_known_launch(const Launch* launch, PyObject* const* arguments, Py_ssize_t positional,
                       PyObject* keywords, PyObject** result) {
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  const Py_ssize_t given = positional + named;
  if (WEFT_UNLIKELY(launch->kernel == nullptr || given > kMostArguments)) return false;
  StagedFunction* kernel = as_staged(launch->kernel);
  int kind = launch->kind;
  if (WEFT_UNLIKELY(named != 0)) {
    const PyObject* stream = stream_of_call(kernel, arguments, positional, keywords);
    if (stream == Py_None || (stream != nullptr && (kind & kOnStream) != 0)) return false;
    if (stream != nullptr) kind |= kOnStream;
  }
  PyObject* own = kernel->hosts[kind].names;
  if (WEFT_UNLIKELY(own == nullptr || PyTuple_GET_SIZE(own) < launch->count)) return false;
  Reference names(all_names(keywords, own, launch->count));
  if (!names) {
    PyErr_Clear();
    return false;
  }
  PyObject* all[kMostArguments + kMostSizes];
  for (Py_ssize_t index = 0; index < given; ++index) all[index] = arguments[index];
  for (Py_ssize_t index = 0; index < launch->count; ++index) all[given + index] = launch->sizes[index];
  return call_generated(kernel, kind, all, positional, names.get(), result);
}

PyObject* call_launch(PyObject* self, PyObject* const* arguments, size_t count_and_flags,
                      PyObject* keywords) {
  const Launch* launch = as_launch(self);
  const Py_ssize_t positional = PyVectorcall_NARGS(count_and_flags);
  PyObject* result = nullptr;
  Reference kept(Py_NewRef(self));
  if (WEFT_LIKELY(call_known_launch(launch, arguments, positional, keywords, &result))) return result;
  if (launch->kernel == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this launch has been garbage-collected");
    return nullptr;
  }
  const bool is_over = (launch->kind & kOver) != 0;
  Reference made(launch_in_python(launch->kernel, launch->configuration, is_over));
  return made ? PyObject_Vectorcall(made.get(), arguments, static_cast<size_t>(positional), keywords)
              : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Launch* launch = as_launch(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(launch->kernel);
  Py_VISIT(launch->configuration);
  for (PyObject* size : launch->sizes) Py_VISIT(size);
  return 0;
}

int clear(PyObject* self) {
  Launch* launch = as_launch(self);
  Py_CLEAR(launch->kernel);
  Py_CLEAR(launch->configuration);
  launch->count = 0;
  for (PyObject*& size : launch->sizes) Py_CLEAR(size);
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  if (g_spare == nullptr) {
    g_spare = as_launch(self);
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

PyObject* repr(PyObject* self) {
  const Launch* launch = as_launch(self);
  if (launch->kernel == nullptr) return PyUnicode_FromString("<weft launch>");
  const char* form =
      (launch->kind & kOver) != 0 ? "<weft launch of %R over %R>" : "<weft launch of %R on %R>";
  return PyUnicode_FromFormat(form, launch->kernel, launch->configuration);
}

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launch, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef kMethods[] = {
    {"launch_on", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_on)), METH_FASTCALL,
     "launch_on(kernel, configuration) -> Callable\n--\n\nSee `Kernel.__getitem__` of weft.api."},
    {"launch_over", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_over)), METH_FASTCALL,
     "launch_over(kernel, iterations) -> Callable\n--\n\nSee `Kernel.over` of weft.api."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_launch_calls(PyObject* module) {
  const int failed = g_type.add(module, "weft._native.Launch",
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                    Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                {{Py_tp_dealloc, dealloc},
                                 {Py_tp_traverse, traverse},
                                 {Py_tp_clear, clear},
                                 {Py_tp_call, PyVectorcall_Call},
                                 {Py_tp_repr, repr},
                                 {Py_tp_members, kMembers}});
  return failed != 0 ? -1 : PyModule_AddFunctions(module, kMethods);
}

}  // namespace weft
