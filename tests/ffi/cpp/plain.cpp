// SPDX-License-Identifier: Apache-2.0
//
// A library of one function and nothing left over when it is unloaded.
#include <tvm/ffi/c_api.h>

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_answer(void*, const TVMFFIAny*, int32_t,
                                                                       TVMFFIAny* result) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = 42;
  return 0;
}
