// SPDX-License-Identifier: Apache-2.0
//
// A program in C that calls exported functions: prints the result, then the message of an error.
#include <stdio.h>
#include <stdlib.h>

#include "functions.h"

static TVMFFIAny tensor(DLTensor* view) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIDLTensorPtr;
  any.v_ptr = view;
  return any;
}

int main(void) {
  int64_t shape[1] = {1000}, short_shape[1] = {3}, strides[1] = {1};
  float* a = malloc(1000 * sizeof(float));
  float* b = malloc(1000 * sizeof(float));
  for (int i = 0; i < 1000; ++i) a[i] = (float)i;
  DLTensor first = {a, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0};
  DLTensor second = first, third = first;
  second.data = b;
  third.shape = short_shape;
  TVMFFIAny factor = {0}, result = {0};
  factor.type_index = kTVMFFIFloat;
  factor.v_float64 = 3.0;
  TVMFFIAny arguments[3] = {tensor(&first), tensor(&second), factor};
  if (__tvm_ffi_scale(NULL, arguments, 3, &result) != 0) return 1;
  printf("%g %g\n", b[1], b[999]);
  arguments[1] = tensor(&third);
  if (__tvm_ffi_scale(NULL, arguments, 3, &result) != -1) return 2;
  TVMFFIObjectHandle error;
  TVMFFIErrorMoveFromRaised(&error);
  TVMFFIErrorCell* cell = (TVMFFIErrorCell*)((TVMFFIObject*)error + 1);
  printf("%.*s: %.*s\n", (int)cell->kind.size, cell->kind.data, (int)cell->message.size, cell->message.data);
  TVMFFIObjectDecRef(error);
  free(a);
  free(b);
  return 0;
}
