// SPDX-License-Identifier: Apache-2.0
//
// Ownership of linked code.
#include "runtime/code_image.h"

#include "driver/devices/device_program.h"
#include "python/callbacks/deferred.h"

weft_code_image::weft_code_image(PyObject* loaded, weft::DeviceProgram* program, weft_state** state_slot,
                                 int32_t load_policy)
    : state_{weft_get_runtime_table(), this, program, -1, load_policy},
      state_slot_(state_slot),
      program_(program),
      loaded_(Py_NewRef(loaded)) {
  if (program_ != nullptr) program_->add_reference();
  if (state_slot_ != nullptr) *state_slot_ = &state_;
}

weft_code_image::~weft_code_image() {
  // A late call of a symbol by its bare address finds no state instead of a freed one.
  if (state_slot_ != nullptr) *state_slot_ = nullptr;
  if (program_ != nullptr) program_->release();
  weft::drop_anywhere(loaded_);
}

void weft_code_image::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

weft_state weft_code_image::make_state(int32_t bound_device) const {
  weft_state state = state_;
  state.bound_device = bound_device;
  return state;
}
