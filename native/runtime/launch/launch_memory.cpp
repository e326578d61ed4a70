// SPDX-License-Identifier: Apache-2.0
//
// One pointer holds the callable, so that a launch without a capture costs one load. It owns its reference
// and changes only under the GIL.
#include "runtime/launch/launch_memory.h"

#include <atomic>

#include "module.h"
#include "python/callbacks/deferred.h"
#include "python/common.h"
#include "python/errors/foreign_error.h"
#include "python/gil.h"

namespace weft {
namespace {

std::atomic<PyObject*> g_source{nullptr};

// (address, words) from the callable, or None. 0, or -1 with an exception.
int read_memory(PyObject* given, void** memory, int64_t* words) {
  if (given == Py_None) return 0;
  unsigned long long address = 0;
  long long count = 0;
  if (!PyTuple_Check(given)) {
    return refuse(PyExc_TypeError, "launch memory is a %s, expected (address, words) or None",
                  Py_TYPE(given)->tp_name);
  }
  if (!PyArg_ParseTuple(given, "KL", &address, &count)) return -1;
  if (count < 0) return refuse(PyExc_ValueError, "launch memory has %lld words, expected 0 or more", count);
  *memory = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  *words = count;
  return 0;
}

int ask(const weft_call_frame& frame, void* stream, const char* function, const char* kernel, int64_t needed,
        void** memory, int64_t* words) {
  PyObject* current = g_source.load(std::memory_order_relaxed);
  if (current == nullptr) return 0;  // the last collector left while this thread waited for the GIL
  Reference source(Py_NewRef(current));
  Reference given(PyObject_CallFunction(source.get(), "ssiiKL", function, kernel,
                                        static_cast<int>(frame.device_type), static_cast<int>(frame.device),
                                        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream)),
                                        static_cast<long long>(needed)));
  return given ? read_memory(given.get(), memory, words) : -1;
}

PyObject* set_launch_memory(PyObject*, PyObject* source) {
  if (source != Py_None && !PyCallable_Check(source)) {
    refuse(PyExc_TypeError, "set_launch_memory: expected a callable or None, received %s",
           Py_TYPE(source)->tp_name);
    return nullptr;
  }
  PyObject* next = source == Py_None ? nullptr : Py_NewRef(source);
  PyObject* before = g_source.exchange(next, std::memory_order_release);
  if (before == nullptr) Py_RETURN_NONE;
  return before;  // the reference that the pointer owned
}

PyMethodDef kMethods[] = {
    {"set_launch_memory", set_launch_memory, METH_O,
     "set_launch_memory(source: Callable[[str, str, int, int, int, int], tuple[int, int] | None] | None) -> "
     "object\n--\n\n"
     "Sets the callable that provides launches with memory to record into: called with the names of the "
     "host function and\n"
     "the kernel, DLPack's device type, the ordinal, the stream and the 8-byte words that the launch\n"
     "needs, 0 if only the run can tell; returns an address and a number of words. Returns the previous "
     "one."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int32_t launch_memory(weft_call_frame* frame, void* stream, const char* function, const char* kernel,
                      void** memory, int64_t* words) {
  const int64_t needed = *words;
  *memory = nullptr;
  *words = 0;
  if (WEFT_LIKELY(g_source.load(std::memory_order_acquire) == nullptr)) return 0;
  if (!interpreter_is_usable()) return 0;
  HeldGil gil;
  // A pending exception of the caller is not the callable's.
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const int32_t code = or_wait_for_the_end([=] {
    return ask(*frame, stream, function, kernel, needed, memory, words) == 0 ? 0 : raise_into_ffi();
  });
  PyErr_Restore(type, value, traceback);
  return code;
}

int add_launch_memory(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
