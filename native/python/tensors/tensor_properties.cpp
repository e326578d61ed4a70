// SPDX-License-Identifier: Apache-2.0
//
// One getter per property, over the DLTensor that the object describes.
#include "python/tensors/tensor_properties.h"

#include "python/values/value_class.h"

namespace weft {
namespace {

PyObject* compact_strides(const DLTensor& tensor) {
  Reference strides(PyTuple_New(tensor.ndim));
  int64_t stride = 1;
  for (int32_t axis = tensor.ndim; strides && axis-- > 0;) {
    PyObject* number = PyLong_FromLongLong(stride);
    if (number == nullptr) return nullptr;
    PyTuple_SET_ITEM(strides.get(), axis, number);
    stride *= tensor.shape[axis];
  }
  return strides.release();
}

PyObject* get_shape(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : dims_to_tuple(tensor->shape, tensor->ndim);
}

PyObject* get_strides(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  if (tensor == nullptr) return nullptr;
  return tensor->strides != nullptr ? dims_to_tuple(tensor->strides, tensor->ndim) : compact_strides(*tensor);
}

PyObject* get_ndim(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : PyLong_FromLong(tensor->ndim);
}

PyObject* get_size(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : PyLong_FromLongLong(count_elements(*tensor));
}

PyObject* get_dtype(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : data_type_to_python(tensor->dtype);
}

PyObject* get_device(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : device_to_python(tensor->device);
}

PyObject* get_data(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : PyLong_FromVoidPtr(tensor->data);
}

PyObject* get_byte_offset(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : PyLong_FromUnsignedLongLong(tensor->byte_offset);
}

PyObject* get_is_contiguous(PyObject* self, void*) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  return tensor == nullptr ? nullptr : PyBool_FromLong(is_contiguous(*tensor));
}

PyObject* get_read_only(PyObject* self, void*) {
  TensorDescription description = describe_tensor(self);
  return description.tensor == nullptr ? nullptr : PyBool_FromLong(description.read_only);
}

}  // namespace

bool is_contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool contiguous = true;
  for (int32_t axis = tensor.ndim; axis-- > 0;) {
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1) contiguous = contiguous && tensor.strides[axis] == expected;
    expected *= tensor.shape[axis];
  }
  return contiguous;
}

int64_t count_elements(const DLTensor& tensor) {
  int64_t elements = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) elements *= tensor.shape[axis];
  return elements;
}

PyGetSetDef kTensorProperties[] = {
    {"shape", get_shape, nullptr, "Dims, as a tuple.", nullptr},
    {"strides", get_strides, nullptr, "Strides in elements, as a tuple.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dims.", nullptr},
    {"size", get_size, nullptr, "The number of elements.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type, a weft.ffi.DataType.", nullptr},
    {"device", get_device, nullptr, "The memory's device, a weft.ffi.Device.", nullptr},
    {"data", get_data, nullptr, "The address of the first element, before byte_offset.", nullptr},
    {"byte_offset", get_byte_offset, nullptr, "Bytes to add to data.", nullptr},
    {"is_contiguous", get_is_contiguous, nullptr, "Whether the last dim varies fastest, with no gaps.",
     nullptr},
    {"read_only", get_read_only, nullptr, "Whether the producer of the memory forbids writing.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace weft
