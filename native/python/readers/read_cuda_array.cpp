// SPDX-License-Identifier: Apache-2.0
//
// __cuda_array_interface__, versions 2 and 3: a dict with shape, typestr, data and byte strides.
#include <cstring>

#include "driver/devices/devices.h"
#include "driver/launch/extract_pointer.h"
#include "driver/library/driver_library.h"
#include "python/readers/readers.h"

namespace weft {
namespace {

PyObject* field(PyObject* interface, const char* name) {
  PyObject* value = PyDict_GetItemString(interface, name);
  return value == Py_None ? nullptr : value;
}

// "<f4" and the like; '|' is for one byte.
int parse_type(PyObject* text, DLDataType* dtype) {
  const char* type = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  const size_t length = type != nullptr ? std::strlen(type) : 0;
  if ((length == 3 || (length == 4 && std::strcmp(type + 2, "16") == 0)) && type[0] != '>') {
    const int bytes = length == 4 ? 16 : type[2] - '0';
    const bool known = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
    const struct {
      char letter;
      DLDataTypeCode code;
      int least;
      int most;
    } letters[] = {{'b', kDLBool, 1, 1},
                   {'i', kDLInt, 1, 8},
                   {'u', kDLUInt, 1, 8},
                   {'f', kDLFloat, 2, 8},
                   {'c', kDLComplex, 8, 16}};
    for (const auto& letter : letters) {
      if (!known || type[1] != letter.letter || bytes < letter.least || bytes > letter.most) continue;
      *dtype = {static_cast<uint8_t>(letter.code), static_cast<uint8_t>(bytes * 8), 1};
      return 0;
    }
  }
  return refuse(PyExc_TypeError, "expected a numeric typestr in __cuda_array_interface__, received %R",
                text == nullptr ? Py_None : text);
}

int parse_dims(PyObject* tuple, const char* name, Py_ssize_t ndim, int64_t* dims) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != ndim) {
    return refuse(PyExc_TypeError, "expected a tuple of %zd as %s in __cuda_array_interface__, received %R",
                  ndim, name, tuple);
  }
  for (Py_ssize_t axis = 0; axis < ndim; ++axis) {
    dims[axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, axis));
    if (dims[axis] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

int parse_data(PyObject* pair, TensorView* view) {
  if (pair == nullptr || !PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
    return refuse(PyExc_TypeError,
                  "expected (pointer, read_only) as data in __cuda_array_interface__, received %R",
                  pair == nullptr ? Py_None : pair);
  }
  view->tensor.data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(pair, 0));
  if (view->tensor.data == nullptr && PyErr_Occurred()) return -1;
  int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(pair, 1));
  view->read_only = read_only > 0;
  return read_only < 0 ? -1 : 0;
}

// The interface does not give the device. If there are several, the driver is asked about the address; memory
// unknown to it counts as device 0.
int32_t device_of_memory(const void* data) {
  DriverError ignored;  // using the array will report the missing driver
  if (data == nullptr || !ensure_driver(&ignored) || device_count() <= 1) return 0;
  const int32_t device = device_of_address(reinterpret_cast<uint64_t>(data));
  return device < 0 ? 0 : device;
}

}  // namespace

int read_cuda_array(PyObject* object, const TypeEntry&, Scratch& scratch, TensorView* view) {
  Reference interface(PyObject_GetAttr(object, g_names.__cuda_array_interface__));
  if (!interface) return -1;
  if (!PyDict_Check(interface.get())) {
    return refuse(PyExc_TypeError, "expected a dict as __cuda_array_interface__, received %s",
                  Py_TYPE(interface.get())->tp_name);
  }
  if (field(interface.get(), "mask") != nullptr) {
    return refuse(PyExc_TypeError,
                  "expected a tensor, received a masked array, whose mask a kernel would not see");
  }
  DLTensor* tensor = &view->tensor;
  if (parse_type(field(interface.get(), "typestr"), &tensor->dtype) != 0) return -1;
  PyObject* shape = field(interface.get(), "shape");
  if (shape == nullptr || !PyTuple_Check(shape)) {
    return refuse(PyExc_TypeError, "expected a tuple as shape in __cuda_array_interface__");
  }
  Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
  int64_t* dims = scratch.take_array<int64_t>(static_cast<size_t>(ndim) * 2);
  if (dims == nullptr || parse_dims(shape, "shape", ndim, dims) != 0) return -1;
  PyObject* strides = field(interface.get(), "strides");
  if (strides != nullptr && parse_dims(strides, "strides", ndim, dims + ndim) != 0) return -1;
  if (parse_data(field(interface.get(), "data"), view) != 0) return -1;
  tensor->device = {kDLCUDA, device_of_memory(tensor->data)};
  tensor->byte_offset = 0;
  if (strides == nullptr) {
    if (copy_dims(scratch, dims, nullptr, static_cast<int32_t>(ndim), tensor) != 0) return -1;
  } else {
    tensor->ndim = static_cast<int32_t>(ndim);
    tensor->shape = dims;
    tensor->strides = dims + ndim;
    if (strides_from_bytes(tensor, tensor->dtype.bits / 8) != 0) return -1;
  }
  return check_extent(object, *tensor) != 0 ? -1 : check_data(object, *tensor);
}

}  // namespace weft
