// SPDX-License-Identifier: Apache-2.0
//
// A program in C that calls an exported function which makes a tensor: prints it, and a failing call's kind.
#include <stdio.h>

#include "tensors.h"

int main(void) {
  float a[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4}, strides[1] = {1};
  DLTensor view = {a, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0};
  TVMFFIAny arguments[2] = {{0}, {0}}, result = {0};
  arguments[0].type_index = kTVMFFIDLTensorPtr;
  arguments[0].v_ptr = &view;
  arguments[1].type_index = kTVMFFIInt;
  arguments[1].v_int64 = 3;
  if (__tvm_ffi_doubled(NULL, arguments, 2, &result) != 0) return 1;
  if (result.type_index != kTVMFFITensor) return 2;
  const DLTensor* made = (const DLTensor*)(result.v_obj + 1);
  const float* values = made->data;
  printf("%d %d %d: %g %g\n", (int)made->ndim, (int)made->shape[0], (int)made->shape[1], values[0],
         values[11]);
  TVMFFIObjectDecRef(result.v_obj);
  if (__tvm_ffi_doubled(NULL, arguments, 2, NULL) != 0) return 3;  // the result is dropped
  arguments[1].v_int64 = -1;
  if (__tvm_ffi_doubled(NULL, arguments, 2, &result) != -1) return 4;
  TVMFFIObjectHandle error;
  TVMFFIErrorMoveFromRaised(&error);
  const TVMFFIErrorCell* cell = (const TVMFFIErrorCell*)((TVMFFIObject*)error + 1);
  printf("%.*s\n", (int)cell->kind.size, cell->kind.data);
  TVMFFIObjectDecRef(error);
  return 0;
}
