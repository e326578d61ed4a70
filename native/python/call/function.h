// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Function: the one callable, for compiled functions and for any function of the FFI.
#ifndef WEFT_PYTHON_FUNCTION_H_
#define WEFT_PYTHON_FUNCTION_H_

#include "python/call/call_plan.h"
#include "python/results/result.h"
#include "python/values/type_table.h"

namespace weft {

enum class Writer : uint8_t;

constexpr Py_ssize_t kAnyCount = -1;    // any number of arguments, no keywords
constexpr Py_ssize_t kAlwaysBind = -2;  // there are keyword-only parameters

struct Function {
  PyObject base;
  vectorcallfunc vectorcall;
  TVMFFISafeCallType safe_call;
  void* handle;                   // first argument of safe_call
  Py_ssize_t direct_count;        // this many positional arguments need no binding; or one of the two above
  const uint8_t* argument_flags;  // of the plan, or nullptr
  bool release_gil;
  bool owned_tensors;
  bool is_callback;      // `object` is one of callback.h
  bool any_value;        // the code is foreign: it takes every kind of value
  Writer writer;         // kCallee until a foreign function is declared not to write
  bool keeps;            // the code stores its arguments
  ResultPolicy policy;   // `policy.tensors` is nullptr if results follow the first tensor argument
  CallPlan* plan;        // or nullptr
  TVMFFIObject* object;  // owned, for functions made from an FFI object
  PyObject* owner;       // keeps the code alive, or nullptr
  PyObject* label;       // str: a planless function's name in errors, or nullptr
  PyObject* details;     // the source of further attributes, or nullptr
  PyObject* foreign;     // the same function in the tvm_ffi package, made on request
  PyObject* weak_references;
  PyObject* first_call;  // receives the time of the first call (first_call.h), or nullptr
  // The type last seen at each position, so that an argument costs a comparison instead of a lookup.
  static constexpr Py_ssize_t kCachedPositions = 12;
  struct CachedType {
    PyTypeObject* type;
    const TypeEntry* entry;
  } cached_types[kCachedPositions];
};

PyTypeObject* function_type();

// Opens libtvm_ffi, for the first function or object. 0, or -1 with ImportError.
int require_library();

// The function's name in errors and repr: a new reference to a str, or nullptr with an exception.
PyObject* name_of_function(const Function& function);

// A function over an FFI function object, whose reference it takes over, even on failure.
PyObject* function_of_object(TVMFFIObject* object);

// The vectorcall entry of Function (call.cpp).
PyObject* call_function(PyObject* callable, PyObject* const* arguments, size_t count_and_flags,
                        PyObject* keywords);

}  // namespace weft

#endif  // WEFT_PYTHON_FUNCTION_H_
