// SPDX-License-Identifier: Apache-2.0
//
// The current call, for code that runs inside it: whether Python's thread state is held, and which library
// the tensors came from. Used by the CPU pool, to release the GIL while it waits and to poll for signals, by
// callbacks and by the tensor allocator. Other callers may have no Python.
#ifndef WEFT_PYTHON_GIL_H_
#define WEFT_PYTHON_GIL_H_

#include "python/common.h"

namespace weft {

struct TypeEntry;

struct CallContext {
  bool holds_gil = true;
  const TypeEntry* tensors = nullptr;  // of the call's first tensor argument
  const void* callee;                  // the callee's handle
};

// The innermost call of the marshaller on this thread, or nullptr. Reading it costs one instruction
// (initial-exec model).
extern thread_local const CallContext* t_call __attribute__((tls_model("initial-exec")));

// True when the marshaller called with the GIL held and this thread still holds it: foreign code between
// the two may have released it.
inline bool caller_holds_gil() { return t_call != nullptr && t_call->holds_gil && PyGILState_Check(); }

// This thread's thread state, made if it has none, and released at the end of the scope.
class HeldGil {
 public:
  HeldGil() : state_(or_wait_for_the_end(PyGILState_Ensure)) {}
  ~HeldGil() { PyGILState_Release(state_); }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace weft

#endif  // WEFT_PYTHON_GIL_H_
