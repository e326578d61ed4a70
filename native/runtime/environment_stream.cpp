// SPDX-License-Identifier: Apache-2.0
//
// The stream of the FFI environment.
#include "runtime/environment_stream.h"

#include "ffi_library.h"

namespace weft {

void* environment_stream(int32_t device_type, int32_t device) {
  return ffi().is_open ? ffi().env_get_stream(device_type, device) : nullptr;
}

}  // namespace weft
