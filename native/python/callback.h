// SPDX-License-Identifier: Apache-2.0
//
// Python callables as FFI functions.
#ifndef WEFT_PYTHON_CALLBACK_H_
#define WEFT_PYTHON_CALLBACK_H_

#include "python/result.h"

namespace weft {

struct CallbackOptions {
  ResultPolicy policy;  // how arguments are given to the callable
  bool views = false;   // as AnyViews, unconverted
};

// An FFI function that calls the callable, from any thread; it can be released by any thread, also after
// the interpreter has ended. Owned by the caller; nullptr with an exception set.
TVMFFIObject* make_callback(PyObject* callable, const CallbackOptions& options);

// The callable behind a function that make_callback made, borrowed, or nullptr without an exception.
PyObject* callable_of(const TVMFFIObject* function);

}  // namespace weft

#endif  // WEFT_PYTHON_CALLBACK_H_
