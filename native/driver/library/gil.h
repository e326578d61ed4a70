// SPDX-License-Identifier: Apache-2.0
//
// Releases the GIL around driver calls that can block: opening, loading, unloading, synchronizing.
#ifndef WEFT_DRIVER_GIL_H_
#define WEFT_DRIVER_GIL_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/callbacks/deferred.h"

namespace weft {

// Releases the GIL for the guard's life if this thread holds it; callers may have no Python.
class WithoutGil {
 public:
  WithoutGil() : saved_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    if (saved_ != nullptr) restore_thread(saved_);
  }

 private:
  PyThreadState* saved_;
};

}  // namespace weft

#endif  // WEFT_DRIVER_GIL_H_
