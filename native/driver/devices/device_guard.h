// SPDX-License-Identifier: Apache-2.0
//
// The rows device_enter and device_leave of the runtime table.
#ifndef WEFT_DRIVER_DEVICE_GUARD_H_
#define WEFT_DRIVER_DEVICE_GUARD_H_

#include <weft/runtime_table.h>

namespace weft {

// Chooses the device (the stream's, the tensors', the bound one, the caller's), loads the image's kernels
// there once, and makes one of its contexts current. On failure the caller's context is current again, the
// FFI error is set and -1 is returned.
int32_t device_enter(weft_call_frame* frame);

// The row multiprocessors: of the device that device_enter chose; 0 where there is none.
int32_t multiprocessors(const weft_call_frame* frame);

// Restores the caller's context, even if none. Returns `code`, or -1 with the FFI error set if the call
// succeeded and restoring failed.
int32_t device_leave(weft_call_frame* frame, int32_t code);

}  // namespace weft

#endif  // WEFT_DRIVER_DEVICE_GUARD_H_
