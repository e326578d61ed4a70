// SPDX-License-Identifier: Apache-2.0
//
// The rows of the runtime table for scratch memory of calls and of launches on the CPU: device memory in
// stream order, host memory that each thread keeps for its next calls; and for tensors that a call makes.
#ifndef WEFT_RUNTIME_CALL_SCRATCH_H_
#define WEFT_RUNTIME_CALL_SCRATCH_H_

#include <weft/runtime_table.h>

namespace weft {

int32_t take_scratch(weft_call_frame* frame, void* stream, const char* place, int64_t element_bytes,
                     const int64_t* sizes, int64_t rank, void** memory);
int32_t release_scratch(weft_call_frame* frame, void* before, int32_t code);
int32_t take_tensor(weft_call_frame* frame, const char* place, int32_t type, const int64_t* sizes,
                    int64_t rank, void** memory, int32_t* number);
void return_tensor(const weft_call_frame* frame, int32_t number, TVMFFIAny* result);
void release_tensors(weft_call_frame* frame);

// An array on the host, as the sanitizer sees it.
struct HostScratch {
  const char* begin = nullptr;
  int64_t bytes = 0;
  uint8_t* written = nullptr;  // of each byte, whether a thread of this call has written it; the array's own
};

// The one among a frame's arrays and tensors that holds an address; empty: none does. `written` is NULL
// without memory.
HostScratch find_host_scratch(void* scratch, void* tensors, const void* address) noexcept;

}  // namespace weft

#endif  // WEFT_RUNTIME_CALL_SCRATCH_H_
