// SPDX-License-Identifier: Apache-2.0
//
// The pool's Python interface: its number of threads, and its counts.
#include "cpu/pool.h"

#include <weft/cpu_cooperative.h>
#include <weft/cpu_mma.h>

#include <cstddef>
#include <iterator>
#include <memory>
#include <new>

#include "cpu/order.h"
#include "cpu/thread_trace.h"
#include "module.h"

namespace weft {
namespace {

// Calls `set` with a count of 0 to 1024; `what` begins the message for any other.
PyObject* set_count(PyObject* argument, const char* what, void (*set)(int32_t count)) {
  const long count = PyLong_AsLong(argument);
  if (count == -1 && PyErr_Occurred()) return nullptr;
  if (count < 0 || count > 1024) {
    PyErr_Format(PyExc_ValueError, "the number of %s is %ld, expected 0 to 1024", what, count);
    return nullptr;
  }
  set(static_cast<int32_t>(count));
  Py_RETURN_NONE;
}

PyObject* set_threads(PyObject*, PyObject* argument) {
  return set_count(argument, "CPU threads", set_cpu_threads);
}

PyObject* set_multiprocessors(PyObject*, PyObject* argument) {
  return set_count(argument, "multiprocessors", set_cpu_multiprocessors);
}

PyObject* set_max_clusters(PyObject*, PyObject* argument) {
  return set_count(argument, "clusters", set_cpu_max_clusters);
}

PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLong(cpu_threads()); }

PyObject* get_counts(PyObject*, PyObject*) {
  const PoolCounts counts = pool_counts();
  return Py_BuildValue("(LLL)", static_cast<long long>(counts.inline_grids),
                       static_cast<long long>(counts.shared_grids), static_cast<long long>(counts.workers));
}

PyObject* set_order(PyObject*, PyObject* arguments) {
  int threads = 0;
  int blocks = 0;
  unsigned long long seed = 0;
  if (!PyArg_ParseTuple(arguments, "iiK:set_launch_order", &threads, &blocks, &seed)) return nullptr;
  if (threads < 0 || threads > 2 || blocks < 0 || blocks > 2) {
    PyErr_SetString(PyExc_ValueError, "an order is 0, 1 or 2");
    return nullptr;
  }
  launch_order() = {static_cast<RunOrder>(threads), static_cast<RunOrder>(blocks), seed};
  Py_RETURN_NONE;
}

PyObject* ask_writer(PyObject*, PyObject* address) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred()) return nullptr;
  writer_question() = {};
  writer_question().address = reinterpret_cast<const void*>(number);
  Py_RETURN_NONE;
}

PyObject* found_writer(PyObject*, PyObject*) {
  const WriterQuestion& found = writer_question();
  if (!found.is_answered) Py_RETURN_NONE;
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  return Py_BuildValue("((LLL)(LLL)s)", number(found.block[0]), number(found.block[1]),
                       number(found.block[2]), number(found.thread[0]), number(found.thread[1]),
                       number(found.thread[2]), found.places.c_str());
}

PyObject* trace_thread(PyObject*, PyObject* arguments) {
  long long block[3], thread[3], most = 0;
  if (!PyArg_ParseTuple(arguments, "(LLL)(LLL)L:trace_thread", &block[0], &block[1], &block[2], &thread[0],
                        &thread[1], &thread[2], &most)) {
    return nullptr;
  }
  const int64_t places[] = {block[0], block[1], block[2], thread[0], thread[1], thread[2]};
  try {
    start_thread_trace(places, places + 3, static_cast<std::size_t>(most < 0 ? 0 : most));
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  Py_RETURN_NONE;
}

// Adds a new reference to a list; -1 if either failed.
int append(PyObject* list, PyObject* item) {
  const int failed = item == nullptr ? -1 : PyList_Append(list, item);
  Py_XDECREF(item);
  return failed;
}

int append_event(PyObject* list, const ThreadTrace::Event& event) {
  PyObject* values = PyTuple_New(static_cast<Py_ssize_t>(event.values.size()));
  if (values == nullptr) return -1;
  for (std::size_t number = 0; number < event.values.size(); ++number) {
    PyObject* value = PyLong_FromLongLong(event.values[number]);
    if (value == nullptr) {
      Py_DECREF(values);
      return -1;
    }
    PyTuple_SET_ITEM(values, static_cast<Py_ssize_t>(number), value);
  }
  return append(list, Py_BuildValue("(isN)", event.launch, event.text->c_str(), values));
}

PyObject* traced_thread(PyObject*, PyObject*) {
  const std::unique_ptr<ThreadTrace> trace = take_thread_trace();
  if (trace == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this thread traces nothing");
    return nullptr;
  }
  PyObject* launches = PyList_New(0);
  PyObject* events = PyList_New(0);
  int failed = launches == nullptr || events == nullptr ? -1 : 0;
  for (const ThreadTrace::Launch& one : trace->launches()) {
    if (failed != 0) break;
    failed = append(launches, Py_BuildValue("(s(iii)(iii))", one.kernel.c_str(), one.grid[0], one.grid[1],
                                            one.grid[2], one.block[0], one.block[1], one.block[2]));
  }
  for (const ThreadTrace::Event& one : trace->events()) {
    if (failed != 0) break;
    failed = append_event(events, one);
  }
  if (failed == 0) {
    return Py_BuildValue("(NNL)", launches, events, static_cast<long long>(trace->dropped()));
  }
  Py_XDECREF(launches);
  Py_XDECREF(events);
  return nullptr;
}

PyMethodDef kFunctions[] = {
    {"set_launch_order", set_order, METH_VARARGS,
     "set_launch_order(threads, blocks, seed)\n--\n\nSets how the next launches of this thread run that ask "
     "for an order: 0 forward, 1 backward, 2 random."},
    {"ask_writer", ask_writer, METH_O,
     "ask_writer(address)\n--\n\nAsks the next instrumented launches of this thread who writes there; 0: no "
     "more."},
    {"found_writer", found_writer, METH_NOARGS,
     "found_writer()\n--\n\nThe last one: block, thread and places of a report; or None."},
    {"trace_thread", trace_thread, METH_VARARGS,
     "trace_thread(block, thread, most)\n--\n\nKeeps what that thread does in the next traced launches of "
     "the calling thread: as many events at most."},
    {"traced_thread", traced_thread, METH_NOARGS,
     "traced_thread()\n--\n\nEnds it: each launch's kernel, grid and block; each event's launch, text and "
     "values; how many more there were."},
    {"set_cpu_threads", set_threads, METH_O,
     "set_cpu_threads(count)\n--\n\nSets how many threads share a grid on the CPU; 0: one per usable CPU."},
    {"set_cpu_multiprocessors", set_multiprocessors, METH_O,
     "set_cpu_multiprocessors(count)\n--\n\nSets what weft.multiprocessors() is on the CPU; 0: its default."},
    {"set_cpu_max_clusters", set_max_clusters, METH_O,
     "set_cpu_max_clusters(count)\n--\n\nSets what kernel.max_clusters(n) is on the CPU; 0: its default."},
    {"cpu_threads", get_threads, METH_NOARGS,
     "cpu_threads()\n--\n\nHow many threads share a grid on the CPU."},
    {"pool_counts", get_counts, METH_NOARGS,
     "pool_counts()\n--\n\nGrids that ran in the calling thread, grids that were shared, workers started."},
    {nullptr, nullptr, 0, nullptr},
};

int add_names(PyObject* module, const char* attribute, const char* const* names, Py_ssize_t count) {
  PyObject* found = PyTuple_New(count);
  if (found == nullptr) return -1;
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* name = PyUnicode_FromString(names[index]);
    if (name == nullptr) {
      Py_DECREF(found);
      return -1;
    }
    PyTuple_SET_ITEM(found, index, name);
  }
  const int failed = PyModule_AddObjectRef(module, attribute, found);
  Py_DECREF(found);
  return failed;
}

}  // namespace

// The names of enum weft_cooperative_operation and of enum weft_mma_type, in order.
int add_cpu_pool(PyObject* module) {
#define WEFT_ROW(name) #name,
  constexpr const char* kOperations[] = {WEFT_COOPERATIVE_OPERATIONS(WEFT_ROW)};
  constexpr const char* kTypes[] = {WEFT_MMA_TYPES(WEFT_ROW)};
#undef WEFT_ROW
  if (add_names(module, "COOPERATIVE_OPERATIONS", kOperations, std::size(kOperations)) != 0) return -1;
  if (add_names(module, "MMA_TYPES", kTypes, std::size(kTypes)) != 0) return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace weft
