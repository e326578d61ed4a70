// SPDX-License-Identifier: Apache-2.0
//
// Linked code: its ownership and lifetime.
//
//   weft._native.CodeImage ──► CodeImage ──► loaded object (LLJIT's code, dropped with the GIL)
//   (Python, one per state)    (native)  └─► DeviceProgram (cubin, libraries, modules)
//
// A compiled function and every TVMFFIFunction made from it hold the Python object; `.to(device)` makes
// another one with its own state over the same native image. The last release needs no GIL and makes no
// driver call: the next holder of the GIL drops the loaded object, libraries are queued for unloading, and
// nothing happens once the interpreter has begun to end.
#ifndef WEFT_RUNTIME_CODE_IMAGE_H_
#define WEFT_RUNTIME_CODE_IMAGE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <weft/runtime_table.h>

#include <atomic>

namespace weft {
class DeviceProgram;
}

struct weft_code_image {
 public:
  // Takes a reference to `loaded` and to `program` (may be nullptr). `state_slot` is the address of the
  // object's own `weft_state` pointer, which is filled here, or nullptr. Needs the GIL.
  weft_code_image(PyObject* loaded, weft::DeviceProgram* program, weft_state** state_slot,
                  int32_t load_policy);
  weft_code_image(const weft_code_image&) = delete;
  weft_code_image& operator=(const weft_code_image&) = delete;

  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  // Any thread, with or without the GIL.
  void release();

  // The state used by calls with a NULL handle.
  weft_state* default_state() { return &state_; }
  // A state over the same code: bound to a device, or -1.
  weft_state make_state(int32_t bound_device) const;

 private:
  ~weft_code_image();

  std::atomic<int64_t> references_{1};
  weft_state state_;
  weft_state** state_slot_;
  weft::DeviceProgram* program_;
  PyObject* loaded_;
};

#endif  // WEFT_RUNTIME_CODE_IMAGE_H_
