// SPDX-License-Identifier: Apache-2.0
//
// Dropping Python references from threads that may not hold the GIL: deleters that foreign code runs
// wherever it likes. The reference is queued and dropped at the next call or by the interpreter.
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

// Drops `object` now when this thread holds the GIL, else later. Callable from any thread. After the
// interpreter has begun to end nothing is dropped: its memory goes with the process.
void drop_anywhere(PyObject* object);

WEFT_COLD void drop_deferred();

// With the GIL held: drops what other threads queued.
inline void drain_deferred() {
  if (WEFT_UNLIKELY(g_deferred.load(std::memory_order_relaxed) != nullptr)) drop_deferred();
}

// Whether this thread can use the interpreter: it has started and has not begun to end, or this is the thread
// that ends it and runs finalizers.
bool interpreter_is_usable();

// As PyEval_RestoreThread; but where the interpreter ends before this thread has the GIL, the thread waits
// for ever instead of being unwound: it has generated code on its stack, and destructors that end the
// process.
void restore_thread(PyThreadState* state);

}  // namespace weft

#endif  // WEFT_PYTHON_DEFERRED_H_
