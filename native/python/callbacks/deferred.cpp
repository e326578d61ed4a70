// SPDX-License-Identifier: Apache-2.0
//
// A lock-free list: any thread pushes, the GIL's holder takes all of it.
#include "python/callbacks/deferred.h"

#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>

namespace weft {

std::atomic<DeferredReference*> g_deferred{nullptr};

bool interpreter_is_usable() {
#if PY_VERSION_HEX >= 0x030D0000
  return (Py_IsInitialized() && !Py_IsFinalizing()) || holds_the_gil();
#else
  return (Py_IsInitialized() && !_Py_IsFinalizing()) || holds_the_gil();
#endif
}

void restore_thread(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    // Before 3.14 Python ends such a thread by pthread_exit.
    for (;;) pause();
  }
}

void drop_deferred() {
  DeferredReference* entry = g_deferred.exchange(nullptr, std::memory_order_acquire);
  while (entry != nullptr) {
    DeferredReference* next = entry->next;
    drop(entry->object);
    std::free(entry);
    entry = next;
  }
}

void drop_anywhere(PyObject* object) {
  if (object == nullptr || !interpreter_is_usable()) return;
  if (PyGILState_Check()) return drop(object);
  auto* entry = static_cast<DeferredReference*>(std::malloc(sizeof(DeferredReference)));
  if (entry == nullptr) return;  // one leaked reference, when there is no memory left at all
  entry->object = object;
  entry->next = g_deferred.load(std::memory_order_relaxed);
  while (!g_deferred.compare_exchange_weak(entry->next, entry, std::memory_order_release)) {
  }
  // Full or refused is harmless: the next call drains the list.
  auto drain = [](void*) -> int {
    drop_deferred();
    return 0;
  };
  (void)Py_AddPendingCall(drain, nullptr);
}

}  // namespace weft
