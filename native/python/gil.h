// SPDX-License-Identifier: Apache-2.0
//
// Whether generated code on this thread was called by Python with the GIL held. The CPU pool asks, so that
// it can release the GIL while it waits and poll for signals; other callers come without Python.
#ifndef WEFT_PYTHON_GIL_H_
#define WEFT_PYTHON_GIL_H_

#include "python/common.h"

namespace weft {

// Set by the marshaller around each call. The initial-exec model costs one instruction to read.
extern thread_local bool t_called_with_gil __attribute__((tls_model("initial-exec")));

// True when the marshaller called with the GIL held and this thread still holds it: foreign code between
// the two may have released it.
inline bool caller_holds_gil() { return t_called_with_gil && PyGILState_Check(); }

}  // namespace weft

#endif  // WEFT_PYTHON_GIL_H_
