// SPDX-License-Identifier: Apache-2.0
//
// A program in C that calls a compiled function by its symbol, as one that was
// linked with it would.
#include <string.h>
#include <tvm/ffi/c_api.h>

typedef int32_t (*Entry)(void *handle, const TVMFFIAny *args, int32_t num_args,
                         TVMFFIAny *result);

static DLTensor view(void *data, int64_t *size) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof(tensor));
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 1;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = size;
  return tensor; // strides stay NULL: contiguous
}

// Calls f(a, b) with two vectors of floats. Returns its code; a message of at
// most `room` bytes is copied where it fails.
int32_t call_with_vectors(Entry entry, float *a, int64_t a_size, float *b,
                          int64_t b_size, char *message, int64_t room) {
  DLTensor first = view(a, &a_size), second = view(b, &b_size);
  TVMFFIAny args[2], result;
  memset(args, 0, sizeof(args));
  memset(&result, 0, sizeof(result));
  args[0].type_index = args[1].type_index = kTVMFFIDLTensorPtr;
  args[0].v_ptr = &first;
  args[1].v_ptr = &second;
  int32_t code = entry(NULL, args, 2, &result);
  if (code != 0) {
    TVMFFIObjectHandle error;
    TVMFFIErrorMoveFromRaised(&error);
    TVMFFIErrorCell *cell =
        (TVMFFIErrorCell *)((char *)error + sizeof(TVMFFIObject));
    int64_t size = (int64_t)cell->message.size < room - 1
                       ? (int64_t)cell->message.size
                       : room - 1;
    memcpy(message, cell->message.data, (size_t)size);
    message[size] = 0;
    TVMFFIObjectDecRef(error);
  }
  return code;
}
