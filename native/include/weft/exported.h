// SPDX-License-Identifier: Apache-2.0
//
// The contract between an exported object file and libweft_runtime.a, which is linked with it. The object has
// one constant per function and a constructor that hands it over; nothing else of the runtime runs at
// loading.
#ifndef WEFT_EXPORTED_H_
#define WEFT_EXPORTED_H_

#include <stdint.h>
#include <weft/runtime_table.h>

#ifdef __cplusplus
extern "C" {
#endif

// A function's constant data, which lives as long as the library.
typedef struct weft_exported {
  int64_t table_version;  // WEFT_RUNTIME_TABLE_VERSION of the extension that generated the code
  const char* name;       // add_one, for messages
  const void* record;     // what weft.load reads: a section `.weft` of the file; unused here
  const void* device_code;
  int64_t device_code_bytes;  // 0 on the CPU
  const char* architecture;   // of the device code, for messages
  int64_t kernel_count;
  const char* const* kernels;  // names in the device code
  int64_t load_policy;         // enum weft_load_policy
  const char* cpu;             // a name such as x86-64-v3 that the host code is for
} weft_exported;

// Fills the state that the generated code reads, `*slot`. It lives until the process ends: a library of
// weft's is linked so that it stays loaded. Makes no driver call and starts no thread.
void weft_open_exported(const weft_exported* function, weft_state** slot);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // WEFT_EXPORTED_H_
