// SPDX-License-Identifier: Apache-2.0
//
// Call plan of one function: names, defaults and policies. Plain data, immutable
// after construction.
#ifndef WEFT_PYTHON_CALL_PLAN_H_
#define WEFT_PYTHON_CALL_PLAN_H_

#include "python/common.h"

namespace weft {

enum ArgumentFlag : uint8_t {
  kArgumentWritten = 1,  // a kernel writes through it: read-only memory is refused
  kArgumentStream = 2,   // passed as an opaque pointer
  kArgumentItems = 4,    // a container whose items differ: see CallPlan::items
  kArgumentRead = 8,     // new tensors are made of it: derivatives of torch would be lost
};

struct CallPlan {
  PyObject base;
  PyObject* name;        // str
  PyObject* signature;   // str, shown in errors
  PyObject* parameters;  // tuple of interned str
  PyObject** defaults;   // one per parameter, or nullptr; owned
  uint8_t* flags;        // one per parameter
  Py_ssize_t count;
  Py_ssize_t positional_count;       // the rest are keyword-only
  Py_ssize_t positional_only_count;  // the first ones, which have no keyword
  // Per parameter None, or (children, constants) for the items of a container. A child is an item's flags, or
  // such a pair itself. Constants are the values of a record's compile-time fields. A nullptr if no parameter
  // has one.
  PyObject* items;
  PyObject* result;  // converts a returned tuple: (callable or None, children), or nullptr
  bool release_gil;
  bool owned_tensors;
  bool foreign;  // takes every kind of value, as functions without a plan do
};

PyTypeObject* call_plan_type();

// Puts the arguments of a call in the order of the parameters: positional ones, keywords, defaults.
// `bound` has room for plan->count values. Returns 0, or -1 with Python's own TypeError.
int bind_arguments(const CallPlan& plan, PyObject* const* arguments, Py_ssize_t positional,
                   PyObject* keywords, PyObject** bound);

}  // namespace weft

#endif  // WEFT_PYTHON_CALL_PLAN_H_
