// SPDX-License-Identifier: Apache-2.0
//
// Calls llvmlite's library with its lock held and no Python code in between: Python runs signal handlers
// between bytecodes, so none can run or raise while the lock is held.
#include "module.h"
#include "python/common.h"

namespace weft {
namespace {

PyObject* invoke(PyObject* callable, PyObject* arguments = nullptr, PyObject* keywords = nullptr) {
  return or_wait_for_the_end([=] {
    return arguments ? PyObject_Call(callable, arguments, keywords) : PyObject_CallNoArgs(callable);
  });
}

// Calls the first (what: 0) or the second (1) of each pair of callbacks registered with the lock.
bool call_registered(PyObject* pairs, Py_ssize_t what) {
  for (Py_ssize_t index = 0; index < PyList_GET_SIZE(pairs); ++index) {
    Reference pair(Py_NewRef(PyList_GET_ITEM(pairs, index)));
    Reference callback(PySequence_GetItem(pair.get(), what));
    if (!callback) return false;
    Reference nothing(invoke(callback.get()));
    if (!nothing) return false;
  }
  return true;
}

PyObject* call_held(PyObject* function, PyObject* registered, PyObject* arguments, PyObject* keywords) {
  if (!call_registered(registered, 0)) return nullptr;
  Reference result(invoke(function, arguments, keywords));
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const bool called = call_registered(registered, 1);
  if (type != nullptr) {
    PyErr_Restore(type, value, traceback);  // the call's own error precedes a callback's
    return nullptr;
  }
  return called ? result.release() : nullptr;
}

// arguments: llvmlite's wrapper of a function (its `_cfn` and `_lock`), then the function's own.
PyObject* call_locked(PyObject*, PyObject* arguments, PyObject* keywords) {
  if (PyTuple_GET_SIZE(arguments) < 1) {
    refuse(PyExc_TypeError, "call_locked is a method of llvmlite's wrapper of functions");
    return nullptr;
  }
  PyObject* self = PyTuple_GET_ITEM(arguments, 0);
  Reference function(PyObject_GetAttrString(self, "_cfn"));
  Reference guard(function ? PyObject_GetAttrString(self, "_lock") : nullptr);
  Reference lock(guard ? PyObject_GetAttrString(guard.get(), "_lock") : nullptr);
  Reference registered(lock ? PyObject_GetAttrString(guard.get(), "_cblist") : nullptr);
  Reference acquire(registered ? PyObject_GetAttrString(lock.get(), "acquire") : nullptr);
  Reference release(acquire ? PyObject_GetAttrString(lock.get(), "release") : nullptr);
  Reference rest(release ? PyTuple_GetSlice(arguments, 1, PY_SSIZE_T_MAX) : nullptr);
  if (!rest) return nullptr;
  Reference acquired(invoke(acquire.get()));
  if (!acquired) return nullptr;  // a handler raised while this thread waited: the lock was not taken
  Reference result(call_held(function.get(), registered.get(), rest.get(), keywords));
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Reference released(invoke(release.get()));
  if (!released) PyErr_WriteUnraisable(lock.get());
  PyErr_Restore(type, value, traceback);
  return result.release();
}

PyMethodDef kCallLocked = {
    "call_locked", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_locked)),
    METH_VARARGS | METH_KEYWORDS,
    "call_locked(self, /, *arguments, **keywords)\n--\n\n"
    "Calls `self._cfn` with `self._lock` held; a method in C for llvmlite's wrapper of functions."};

}  // namespace

int add_locked_call(PyObject* module) {
  Reference function(PyCFunction_New(&kCallLocked, nullptr));
  Reference method(function ? PyInstanceMethod_New(function.get()) : nullptr);  // binds to `self` in a class
  return method ? PyModule_AddObjectRef(module, "call_locked", method.get()) : -1;
}

}  // namespace weft
