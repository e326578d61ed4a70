// SPDX-License-Identifier: Apache-2.0
//
// Shared by the readers: refusals and the conversion of strides.
#include "python/readers/readers.h"
#include "runtime/describe.h"

namespace weft {

int check_extent(PyObject* object, const DLTensor& tensor) {
  const char* type = Py_TYPE(object)->tp_name;
  int64_t elements = 1, lowest = 0, highest = 0;  // the least and the greatest offset of an element
  bool empty = false, too_many = false, outside = false;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    const int64_t dim = tensor.shape[axis];
    if (dim < 0) {
      return refuse(PyExc_ValueError, "expected dims of 0 and more, received %s with shape[%d] = %lld", type,
                    axis, static_cast<long long>(dim));
    }
    empty = empty || dim == 0;
    if (dim == 0) continue;
    too_many = __builtin_mul_overflow(elements, dim, &elements) || too_many;
    int64_t reach;
    outside = __builtin_mul_overflow(dim - 1, tensor.strides[axis], &reach) || outside;
    int64_t* end = reach < 0 ? &lowest : &highest;
    outside = __builtin_add_overflow(*end, reach, end) || outside;
  }
  if (too_many) {
    return refuse(PyExc_ValueError, "expected fewer than 2**63 elements, received %s of shape %s", type,
                  describe_shape(tensor).c_str());
  }
  const int64_t item_bytes = (int64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
  const auto data = reinterpret_cast<uint64_t>(tensor.data);
  uint64_t first, end;
  if (empty) lowest = highest = 0;
  outside = (outside && !empty) || __builtin_mul_overflow(lowest, item_bytes, &lowest) ||
            __builtin_mul_overflow(highest, item_bytes, &highest) ||
            __builtin_add_overflow(data, tensor.byte_offset, &first) ||
            __builtin_add_overflow(first, highest, &end) || __builtin_add_overflow(first, lowest, &end);
  if (!outside) return 0;
  return refuse(PyExc_ValueError,
                "expected elements inside the address space, received %s of shape %s at %p, whose strides "
                "and byte_offset = %llu lead outside it",
                type, describe_shape(tensor).c_str(), tensor.data,
                static_cast<unsigned long long>(tensor.byte_offset));
}

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
