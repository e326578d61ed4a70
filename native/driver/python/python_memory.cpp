// SPDX-License-Identifier: Apache-2.0
//
// Tensors that own their memory.
#include <dlpack/dlpack.h>

#include <algorithm>

#include "driver/devices/owned_tensor.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "driver/python/tensor_memory.h"
#include "ffi_library.h"
#include "python/objects/object.h"

namespace weft {
namespace {

constexpr int32_t kMostRank = 32;

PyObject* empty_tensor(PyObject*, PyObject* arguments) {
  PyObject* shape = nullptr;
  int code = 0, bits = 0, device = -1;
  if (!PyArg_ParseTuple(arguments, "O!iii:empty_tensor", &PyTuple_Type, &shape, &code, &bits, &device))
    return nullptr;
  const auto rank = static_cast<int32_t>(PyTuple_GET_SIZE(shape));
  int64_t sizes[kMostRank] = {};
  for (int32_t axis = 0; axis < std::min(rank, kMostRank); ++axis) {
    sizes[axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis));
    if (sizes[axis] == -1 && PyErr_Occurred()) return nullptr;
  }
  TVMFFIObject* handle = new_tensor(sizes, rank, {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1},
                                    device < 0 ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, device});
  return handle == nullptr ? nullptr : own_object(handle);
}

PyMethodDef kMethods[] = {
    {"empty_tensor", empty_tensor, METH_VARARGS,
     "empty_tensor(shape: tuple[int, ...], code: int, bits: int, device: int) -> Tensor\n--\n\n"
     "A tensor with memory of its own: on the device with that ordinal, or on the host for -1."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

TVMFFIObject* new_tensor(const int64_t* shape, int32_t rank, DLDataType type, DLDevice device) {
  if (!ffi().is_open) {
    PyErr_SetString(PyExc_RuntimeError, "a tensor needs libtvm_ffi to be open");
    return nullptr;
  }
  DLTensor prototype{};
  prototype.dtype = type;
  prototype.device = device;
  prototype.ndim = rank;
  prototype.shape = const_cast<int64_t*>(shape);
  DriverError error;
  DLManagedTensorVersioned* managed = make_owned_tensor(prototype, &error);
  if (managed == nullptr) {
    set_python_error(error);
    return nullptr;
  }
  TVMFFIObjectHandle handle = nullptr;
  if (ffi().tensor_from_dlpack_versioned(managed, 0, 0, &handle) == 0) {
    return static_cast<TVMFFIObject*>(handle);
  }
  managed->deleter(managed);
  PyErr_SetString(PyExc_RuntimeError, "libtvm_ffi could not make a tensor of this memory");
  return nullptr;
}

int add_memory(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
