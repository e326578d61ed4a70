// SPDX-License-Identifier: Apache-2.0
//
// Drops Python references from threads that may not hold the GIL, such as deleters run by foreign code. The
// reference is queued and dropped at the next call or by the interpreter.
#ifndef WEFT_PYTHON_DEFERRED_H_
#define WEFT_PYTHON_DEFERRED_H_

#include <atomic>

#include "python/common.h"

namespace weft {

struct DeferredReference {
  PyObject* object;
  DeferredReference* next;
};

extern std::atomic<DeferredReference*> g_deferred;

// Drops `object` now if this thread holds the GIL, else later. Callable from any thread. Once the interpreter
// has begun to end nothing is dropped: the process frees its memory.
void drop_anywhere(PyObject* object);

WEFT_COLD void drop_deferred();

// With the GIL held: drops what other threads queued.
inline void drain_deferred() {
  if (WEFT_UNLIKELY(g_deferred.load(std::memory_order_relaxed) != nullptr)) drop_deferred();
}

// Whether this thread can use the interpreter: it is running, or this is the thread that ends it and runs
// finalizers.
bool interpreter_is_usable();

// As PyEval_RestoreThread; but if the interpreter ends before this thread has the GIL, the thread waits for
// ever instead of being unwound: unwinding generated code or destructors would end the process.
void restore_thread(PyThreadState* state);

}  // namespace weft

#endif  // WEFT_PYTHON_DEFERRED_H_
