// SPDX-License-Identifier: Apache-2.0
//
// What the readers share: refusals and the conversion of strides.
#include "python/readers.h"

namespace weft {

int refuse_null_data(PyObject* object, const DLTensor& tensor) {
  int64_t elements = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) elements *= tensor.shape[axis];
  return refuse(PyExc_ValueError, "expected a tensor with memory, received %s with %lld elements and no data",
                Py_TYPE(object)->tp_name, static_cast<long long>(elements));
}

int strides_from_bytes(DLTensor* tensor, int64_t item_bytes) {
  for (int32_t axis = 0; axis < tensor->ndim; ++axis) {
    int64_t stride = tensor->strides[axis];
    if (stride % item_bytes != 0 && tensor->shape[axis] > 1) {
      return refuse(PyExc_ValueError,
                    "expected strides that are multiples of the %lld-byte elements, received strides[%d] = "
                    "%lld bytes (a field of a structured array?)",
                    static_cast<long long>(item_bytes), axis, static_cast<long long>(stride));
    }
    tensor->strides[axis] = stride / item_bytes;
  }
  return 0;
}

namespace {

TensorReader reader_of(Family family) {
  switch (family) {
    case Family::kExchange:
      return read_exchange;
    case Family::kCudaArray:
      return read_cuda_array;
    case Family::kBuffer:
      return read_buffer;
    default:
      return read_dlpack;
  }
}

}  // namespace

int read_immutable(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view) {
  const int failed = reader_of(entry.family)(object, entry, scratch, view);
  view->read_only = true;
  return failed;
}

}  // namespace weft
