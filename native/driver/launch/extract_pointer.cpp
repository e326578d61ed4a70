// SPDX-License-Identifier: Apache-2.0
//
// Pointers, by the marshaller's own readers of tensors, so that both accept and refuse the same objects.
#include "driver/launch/extract_pointer.h"

#include "driver/library/driver_library.h"
#include "python/objects/object.h"
#include "python/tensors/tensor_cell.h"
#include "python/values/type_table.h"

namespace weft {
namespace {

int refuse_device(int32_t expected, int32_t received) {
  return refuse(PyExc_ValueError,
                "expected memory of cuda:%d, where the kernel runs, received memory of cuda:%d", expected,
                received);
}

// Managed memory and pinned host memory are reachable from every device.
int check_tensor_device(const DLTensor& tensor, const ExtractionContext& context) {
  const DLDevice device = tensor.device;
  if (device.device_type == kDLCUDAHost || device.device_type == kDLCUDAManaged) return 0;
  if (device.device_type != kDLCUDA) {
    return refuse(PyExc_ValueError, "expected memory of cuda:%d, where the kernel runs, received %s",
                  context.device,
                  device.device_type == kDLCPU ? "host memory" : "memory of another kind of device");
  }
  if (device.device_id != context.device) return refuse_device(context.device, device.device_id);
  return 0;
}

// Replaces the address with the one that kernels use, which may differ for pinned host memory.
int check_with_driver(uint64_t* given, const ExtractionContext& context) {
  const uint64_t address = *given;
  uint32_t kind = 0;
  uint64_t usable = 0;
  if (driver().cuPointerGetAttribute(&kind, cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
          cuda::CUDA_SUCCESS ||
      driver().cuPointerGetAttribute(&usable, cuda::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) !=
          cuda::CUDA_SUCCESS) {
    return refuse(PyExc_ValueError,
                  "expected memory of cuda:%d, where the kernel runs, received %p, which CUDA does "
                  "not know (host memory?)",
                  context.device, reinterpret_cast<void*>(address));
  }
  const int32_t ordinal = device_of_address(address);
  uint32_t is_managed = 0;
  driver().cuPointerGetAttribute(&is_managed, cuda::CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  if (kind == cuda::CU_MEMORYTYPE_DEVICE && is_managed == 0 && ordinal >= 0 && ordinal != context.device) {
    return refuse_device(context.device, ordinal);
  }
  *given = usable;
  return 0;
}

int read_address(PyObject* integer, uint64_t* address) {
  *address = PyLong_AsUnsignedLongLong(integer);
  if (*address != UINT64_MAX || !PyErr_Occurred()) return 0;
  PyErr_Clear();
  return refuse(PyExc_ValueError, "expected an address from 0 to 2**64 - 1, received %S", integer);
}

int read_view(const DLTensor& tensor, const ExtractionContext& context, uint64_t* address) {
  if (context.check != kPointerOff && check_tensor_device(tensor, context) != 0) return -1;
  *address = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
  return 0;
}

int read_array(PyObject* object, const TypeEntry& entry, const ExtractionContext& context,
               uint64_t* address) {
  Scratch scratch;
  TensorView view;
  if (read_tensor(object, entry, scratch, &view) != 0) return -1;
  return read_view(view.tensor, context, address);
}

// An object that says nothing of its device: the driver does, of the address.
int read_data_ptr(PyObject* object, const ExtractionContext& context, uint64_t* address) {
  Reference method(PyObject_GetAttrString(object, "data_ptr"));
  if (!method) {
    PyErr_Clear();
    return refuse(PyExc_TypeError,
                  "expected a tensor, an address, None or an object with data_ptr(), received %s",
                  Py_TYPE(object)->tp_name);
  }
  Reference value(PyObject_CallNoArgs(method.get()));
  if (!value) return -1;
  if (PyLong_Check(value.get())) {
    if (read_address(value.get(), address) != 0) return -1;
    const bool asks = context.check == kPointerDevice && !context.trusts_addresses && *address != 0;
    return asks ? check_with_driver(address, context) : 0;
  }
  return refuse(PyExc_TypeError, "expected an int from data_ptr() of %s, received %s",
                Py_TYPE(object)->tp_name, Py_TYPE(value.get())->tp_name);
}

int find_address(PyObject* object, const ExtractionContext& context, uint64_t* address) {
  if (PyLong_CheckExact(object)) return read_address(object, address);
  const TypeEntry* entry = find_type(object);
  if (entry == nullptr) return -1;
  if (entry->kind == Kind::kTensor) return read_array(object, *entry, context, address);
  if (entry->kind == Kind::kObject) {
    TVMFFIObject* handle = reinterpret_cast<Object*>(object)->handle;
    if (handle->type_index == kTVMFFITensor) return read_view(*tensor_of(handle), context, address);
  }
  return read_data_ptr(object, context, address);
}

}  // namespace

int32_t device_of_address(uint64_t address) {
  int ordinal = -1;
  uint32_t kind = 0;
  if (driver().cuPointerGetAttribute(&kind, cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
          cuda::CUDA_SUCCESS ||
      kind != cuda::CU_MEMORYTYPE_DEVICE ||
      driver().cuPointerGetAttribute(&ordinal, cuda::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
          cuda::CUDA_SUCCESS) {
    return -1;
  }
  return ordinal;
}

int extract_pointer(PyObject* object, const ExtractionContext& context, uint64_t* address) {
  *address = 0;
  if (object == Py_None) return 0;
  if (find_address(object, context, address) != 0) return -1;
  return context.check == kPointerDriver && *address != 0 ? check_with_driver(address, context) : 0;
}

}  // namespace weft
