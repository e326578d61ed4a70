// SPDX-License-Identifier: Apache-2.0
//
// Python callables as FFI functions.
#ifndef WEFT_PYTHON_CALLBACK_H_
#define WEFT_PYTHON_CALLBACK_H_

#include "python/results/result.h"

namespace weft {

struct CallbackOptions {
  ResultPolicy policy;  // how arguments are passed to the callable
  bool views = false;   // as AnyViews, unconverted
};

// An FFI function that calls the callable, from any thread; any thread may release it, even after the
// interpreter has ended. Owned by the caller; nullptr with an exception set.
TVMFFIObject* make_callback(PyObject* callable, const CallbackOptions& options);

// Whether make_callback made it.
bool is_callback(const TVMFFIObject* function);

// The garbage collector's view of a callback, with the GIL held. Each Function counts itself in and out. The
// callable belongs to the one Function that holds the only reference to the callback; it is nullptr, and is
// not cleared, if there are other references.
void count_function(const TVMFFIObject* function, int32_t more);
PyObject* callable_for_collector(const TVMFFIObject* function);
void clear_for_collector(const TVMFFIObject* function);

}  // namespace weft

#endif  // WEFT_PYTHON_CALLBACK_H_
