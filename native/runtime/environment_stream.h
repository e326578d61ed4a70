// SPDX-License-Identifier: Apache-2.0
//
// The row environment_stream.
#ifndef WEFT_RUNTIME_ENVIRONMENT_STREAM_H_
#define WEFT_RUNTIME_ENVIRONMENT_STREAM_H_

#include <cstdint>

namespace weft {

// The stream that the FFI environment holds for a device in this thread; nullptr is the legacy default.
void* environment_stream(int32_t device_type, int32_t device);

}  // namespace weft

#endif  // WEFT_RUNTIME_ENVIRONMENT_STREAM_H_
