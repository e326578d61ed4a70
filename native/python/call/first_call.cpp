// SPDX-License-Identifier: Apache-2.0
//
// The vectorcall entry of a function whose first call is timed.
#include "python/call/first_call.h"

#include <chrono>
#include <utility>

#include "python/common.h"

namespace weft {
namespace {

// The GIL is held on entry, so only one of several threads takes the callback.
PyObject* call_first(PyObject* callable, PyObject* const* arguments, size_t count_and_flags,
                     PyObject* keywords) {
  auto* function = reinterpret_cast<Function*>(callable);
  Reference callback(std::exchange(function->first_call, nullptr));
  function->vectorcall = call_function;
  if (!callback) return call_function(callable, arguments, count_and_flags, keywords);
  const auto start = std::chrono::steady_clock::now();
  Reference result(call_function(callable, arguments, count_and_flags, keywords));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!result) {
    // A refused argument is not a first call. A callback set meanwhile stays.
    if (function->first_call == nullptr) {
      function->first_call = callback.release();
      function->vectorcall = call_first;
    }
    return nullptr;
  }
  Reference seconds(PyFloat_FromDouble(elapsed.count()));
  Reference said(seconds ? PyObject_CallOneArg(callback.get(), seconds.get()) : nullptr);
  if (!said) PyErr_WriteUnraisable(callable);
  return result.release();
}

}  // namespace

PyObject* report_first_call(PyObject* self, PyObject* callback) {
  auto* function = reinterpret_cast<Function*>(self);
  if (callback != Py_None && !PyCallable_Check(callback)) {
    PyErr_Format(PyExc_TypeError, "report_first_call() takes a callable or None, received %.200s",
                 Py_TYPE(callback)->tp_name);
    return nullptr;
  }
  Reference before(std::exchange(function->first_call, callback == Py_None ? nullptr : Py_NewRef(callback)));
  function->vectorcall = function->first_call == nullptr ? call_function : call_first;
  Py_RETURN_NONE;
}

}  // namespace weft
