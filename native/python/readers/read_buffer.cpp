// SPDX-License-Identifier: Apache-2.0
//
// The buffer protocol: memoryview, array.array, ctypes arrays, mmap, bytearray. The buffer is held until
// the call ends.
#include <cstring>

#include "python/readers/readers.h"

namespace weft {
namespace {

void release_buffer(void* buffer) { PyBuffer_Release(static_cast<Py_buffer*>(buffer)); }

// The letters of the struct module; sizes come from the buffer, since 'l' has several.
int code_of(const char* format) {
  if (format == nullptr) return kDLUInt;  // bytes, by the protocol
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && format[2] == '\0') return kDLComplex;
  if (format[0] == '\0' || format[1] != '\0') return -1;
  if (format[0] == '?') return kDLBool;
  if (std::strchr("bhilqn", format[0]) != nullptr) return kDLInt;
  if (std::strchr("BHILQN", format[0]) != nullptr) return kDLUInt;
  if (std::strchr("efd", format[0]) != nullptr) return kDLFloat;
  return -1;
}

}  // namespace

int read_buffer(PyObject* object, const TypeEntry&, Scratch& scratch, TensorView* view) {
  Py_buffer* buffer = static_cast<Py_buffer*>(scratch.take(sizeof(Py_buffer)));
  if (buffer == nullptr || PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) != 0) return -1;
  if (scratch.at_end(release_buffer, buffer) != 0) return -1;
  int code = code_of(buffer->format);
  Py_ssize_t bytes = buffer->itemsize;
  if (code < 0 || bytes < 1 || bytes > 16 || (bytes & (bytes - 1)) != 0) {
    return refuse(PyExc_TypeError, "expected a tensor of numbers, received %s with elements of format '%s'",
                  Py_TYPE(object)->tp_name, buffer->format == nullptr ? "B" : buffer->format);
  }
  DLTensor* tensor = &view->tensor;
  tensor->data = buffer->buf;
  tensor->device = {kDLCPU, 0};
  tensor->dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bytes * 8), 1};
  tensor->byte_offset = 0;
  view->read_only = buffer->readonly != 0;
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "dims are copied as 64-bit integers");
  Py_ssize_t length = buffer->len / bytes;
  const Py_ssize_t* shape = buffer->shape != nullptr ? buffer->shape : &length;
  int64_t* dims = scratch.take_array<int64_t>(static_cast<size_t>(buffer->ndim));
  int64_t* strides = scratch.take_array<int64_t>(static_cast<size_t>(buffer->ndim));
  if (dims == nullptr || strides == nullptr) return -1;
  for (int axis = 0; axis < buffer->ndim; ++axis) {
    dims[axis] = shape[axis];
    if (buffer->strides != nullptr) strides[axis] = buffer->strides[axis];
  }
  if (copy_dims(scratch, dims, buffer->strides != nullptr ? strides : nullptr, buffer->ndim, tensor) != 0) {
    return -1;
  }
  if (buffer->strides != nullptr && strides_from_bytes(tensor, bytes) != 0) return -1;
  return check_extent(object, *tensor) != 0 ? -1 : check_data(object, *tensor);
}

}  // namespace weft
