// SPDX-License-Identifier: Apache-2.0
//
// Tensors that own their memory.
#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "driver/devices/devices.h"
#include "driver/devices/unload_queue.h"
#include "driver/launch/launch_diagnosis.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "driver/python/tensor_memory.h"
#include "ffi_library.h"
#include "python/objects/object.h"
#include "python/tensors/copy_plan.h"
#include "runtime/describe.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 64;  // of host memory; device memory has at least 256
constexpr int32_t kMostRank = 32;

// Enters the context for `device` (-1: the caller's) and `stream`.
bool enter(int32_t* device, const void* stream, cuda::CUcontext* context, ContextGuard* guard,
           DriverError* error) {
  if (!ensure_driver(error)) return false;
  if (*device != -1 && device_at(*device, error) == nullptr) return false;
  return choose_context(device, stream, context, error) && guard->enter(*context, error);
}

bool fail(cuda::CUresult result, const char* function, size_t bytes, int32_t device, DriverError* error) {
  return error->cuda(result, function,
                     "allocating " + std::to_string(bytes) + " bytes on cuda:" + std::to_string(device),
                     explain_asynchronous_error(result));
}

// Owned by a tensor made here: its memory and its shape.
struct OwnedTensor {
  DLManagedTensorVersioned managed;
  cuda::CUcontext context;  // NULL: host memory
  int64_t sizes[kMostRank];
  int64_t strides[kMostRank];
};

// Any thread, with or without the GIL: device memory waits for a safe point.
void delete_tensor(DLManagedTensorVersioned* managed) {
  const std::unique_ptr<OwnedTensor> owned(static_cast<OwnedTensor*>(managed->manager_ctx));
  void* memory = managed->dl_tensor.data;
  if (owned->context != nullptr) {
    queue_free(reinterpret_cast<cuda::CUdeviceptr>(memory), owned->context);
  } else {
    std::free(memory);
  }
}

// Sizes into the tensor, strides derived; the number of elements, or -1 with an exception.
int64_t set_shape(const int64_t* shape, int32_t rank, OwnedTensor* owned) {
  if (rank > kMostRank) {
    return refuse(PyExc_ValueError, "shape has %d dimensions, expected at most %d", rank, kMostRank);
  }
  DLTensor& tensor = owned->managed.dl_tensor;
  tensor.ndim = rank;
  tensor.shape = owned->sizes;
  tensor.strides = owned->strides;
  std::copy(shape, shape + rank, owned->sizes);
  int64_t elements = 1;
  for (int32_t axis = rank; axis-- > 0;) {
    owned->strides[axis] = elements;
    if (shape[axis] < 0) {
      return refuse(PyExc_ValueError, "shape[%d] is %lld, expected 0 or more", axis,
                    static_cast<long long>(shape[axis]));
    }
    if (__builtin_mul_overflow(elements, shape[axis], &elements)) {
      return refuse(PyExc_ValueError, "shape %s has more elements than fit 64 bits",
                    describe_shape(tensor).c_str());
    }
  }
  return elements;
}

bool allocate_device(OwnedTensor* owned, size_t bytes, DriverError* error) {
  ContextGuard guard;
  int32_t device = owned->managed.dl_tensor.device.device_id;
  drain_unload_queue();  // before a context is chosen, since it switches contexts too
  if (!enter(&device, nullptr, &owned->context, &guard, error)) return false;
  const RelaxedCapture relaxed;
  if (bytes == 0) return guard.leave(error);
  cuda::CUdeviceptr address = 0;
  const cuda::CUresult result = driver().cuMemAlloc(&address, bytes);
  if (result != cuda::CUDA_SUCCESS) return fail(result, "cuMemAlloc", bytes, device, error);
  owned->managed.dl_tensor.data = reinterpret_cast<void*>(address);
  return guard.leave(error);
}

// The memory of a tensor whose shape, type and device are set; 0, or -1 with an exception.
int allocate(OwnedTensor* owned, int64_t elements) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, item_bytes(owned->managed.dl_tensor.dtype), &bytes)) {
    return refuse(PyExc_ValueError, "the tensor has more bytes than fit 64 bits");
  }
  if (owned->managed.dl_tensor.device.device_type == kDLCUDA) {
    DriverError error;
    bool done;
    {
      WithoutGil released;
      done = allocate_device(owned, static_cast<size_t>(bytes), &error);
    }
    if (!done) set_python_error(error);
    return done ? 0 : -1;
  }
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment) / kAlignment * kAlignment;
  owned->managed.dl_tensor.data = std::aligned_alloc(kAlignment, rounded);
  if (owned->managed.dl_tensor.data != nullptr) return 0;
  PyErr_Format(PyExc_MemoryError, "the host has no memory for a tensor of %lld bytes",
               static_cast<long long>(bytes));
  return -1;
}

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
  auto* owned = new (std::nothrow) OwnedTensor{};
  if (owned == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  owned->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = delete_tensor;
  owned->managed.dl_tensor.dtype = type;
  owned->managed.dl_tensor.device = device;
  const int64_t elements = set_shape(shape, rank, owned);
  if (elements < 0 || allocate(owned, elements) != 0) {
    delete_tensor(&owned->managed);
    return nullptr;
  }
  TVMFFIObjectHandle handle = nullptr;
  if (ffi().tensor_from_dlpack_versioned(&owned->managed, 0, 0, &handle) == 0) {
    return static_cast<TVMFFIObject*>(handle);
  }
  delete_tensor(&owned->managed);
  PyErr_SetString(PyExc_RuntimeError, "libtvm_ffi could not make a tensor of this memory");
  return nullptr;
}

int add_memory(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
