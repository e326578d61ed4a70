// SPDX-License-Identifier: Apache-2.0
//
// Memory: stream-ordered scratch for launches, and tensors that own their memory.
#include <dlpack/dlpack.h>

#include <cstdlib>
#include <new>

#include "driver/devices/devices.h"
#include "driver/devices/unload_queue.h"
#include "driver/launch/launch_diagnosis.h"
#include "driver/launch/launch_scratch.h"
#include "driver/library/driver_library.h"
#include "driver/library/gil.h"
#include "driver/python/python_module.h"
#include "ffi_library.h"
#include "python/objects/object.h"
#include "python/readers/stream.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 64;  // of host memory; device memory has at least 256
constexpr Py_ssize_t kMostRank = 32;

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
  auto* owned = static_cast<OwnedTensor*>(managed->manager_ctx);
  void* memory = managed->dl_tensor.data;
  if (owned->context != nullptr) {
    queue_free(reinterpret_cast<cuda::CUdeviceptr>(memory), owned->context);
  } else {
    std::free(memory);
  }
  delete owned;
}

// Sizes into the tensor, strides derived; the number of elements, or -1 with an exception.
int64_t read_shape(PyObject* shape, OwnedTensor* owned) {
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  if (rank > kMostRank) {
    return refuse(PyExc_ValueError, "shape has %zd dimensions, expected at most %zd", rank, kMostRank);
  }
  int64_t elements = 1;
  for (Py_ssize_t axis = rank; axis-- > 0;) {
    const long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis));
    if (size == -1 && PyErr_Occurred()) return -1;
    owned->sizes[axis] = size;
    owned->strides[axis] = elements;
    if (size < 0) return refuse(PyExc_ValueError, "shape[%zd] is %lld, expected 0 or more", axis, size);
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return refuse(PyExc_ValueError, "shape %R has more elements than fit 64 bits", shape);
    }
  }
  DLTensor& tensor = owned->managed.dl_tensor;
  tensor.ndim = static_cast<int32_t>(rank);
  tensor.shape = owned->sizes;
  tensor.strides = owned->strides;
  return elements;
}

bool allocate_device(OwnedTensor* owned, size_t bytes, int32_t device, DriverError* error) {
  ContextGuard guard;
  if (!enter(&device, nullptr, &owned->context, &guard, error)) return false;
  owned->managed.dl_tensor.device = {kDLCUDA, device};
  drain_unload_queue();
  const RelaxedCapture relaxed;
  if (bytes == 0) return guard.leave(error);
  cuda::CUdeviceptr address = 0;
  const cuda::CUresult result = driver().cuMemAlloc(&address, bytes);
  if (result != cuda::CUDA_SUCCESS) return fail(result, "cuMemAlloc", bytes, device, error);
  owned->managed.dl_tensor.data = reinterpret_cast<void*>(address);
  return guard.leave(error);
}

// The memory of a tensor whose shape is set; 0, or -1 with an exception.
int allocate(OwnedTensor* owned, int64_t elements, int bits, int device) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, int64_t{bits} / 8, &bytes)) {
    return refuse(PyExc_ValueError, "the tensor has more bytes than fit 64 bits");
  }
  if (device >= 0) {
    DriverError error;
    bool done;
    {
      WithoutGil released;
      done = allocate_device(owned, static_cast<size_t>(bytes), device, &error);
    }
    if (!done) set_python_error(error);
    return done ? 0 : -1;
  }
  owned->managed.dl_tensor.device = {kDLCPU, 0};
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
  if (!ffi().is_open) {
    PyErr_SetString(PyExc_RuntimeError, "empty_tensor needs libtvm_ffi to be open");
    return nullptr;
  }
  auto* owned = new (std::nothrow) OwnedTensor{};
  if (owned == nullptr) return PyErr_NoMemory();
  owned->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = delete_tensor;
  owned->managed.dl_tensor.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  const int64_t elements = read_shape(shape, owned);
  if (elements < 0 || allocate(owned, elements, bits, device) != 0) {
    delete_tensor(&owned->managed);
    return nullptr;
  }
  TVMFFIObjectHandle handle = nullptr;
  if (ffi().tensor_from_dlpack_versioned(&owned->managed, 0, 0, &handle) != 0) {
    delete_tensor(&owned->managed);
    PyErr_SetString(PyExc_RuntimeError, "libtvm_ffi could not make a tensor of this memory");
    return nullptr;
  }
  return own_object(static_cast<TVMFFIObject*>(handle));
}

bool copy(cuda::CUdeviceptr address, Py_buffer* host, bool to_device, int32_t device, void* stream,
          DriverError* error) {
  ContextGuard guard;
  cuda::CUcontext context = nullptr;
  if (!enter(&device, stream, &context, &guard, error)) return false;
  auto queue = static_cast<cuda::CUstream>(stream);
  const auto bytes = static_cast<size_t>(host->len);
  const char* function = to_device ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync";
  cuda::CUresult result = to_device ? driver().cuMemcpyHtoDAsync(address, host->buf, bytes, queue)
                                    : driver().cuMemcpyDtoHAsync(host->buf, address, bytes, queue);
  if (result == cuda::CUDA_SUCCESS && !to_device) {
    function = "cuStreamSynchronize";  // reads need the data, writes need not wait
    result = driver().cuStreamSynchronize(queue);
  }
  if (result == cuda::CUDA_SUCCESS) return guard.leave(error);
  return error->cuda(result, function,
                     "copying " + std::to_string(bytes) +
                         (to_device ? " bytes to cuda:" : " bytes from cuda:") + std::to_string(device),
                     explain_asynchronous_error(result));
}

PyObject* copy_memory(PyObject* arguments, const char* format, int buffer_flags, bool to_device) {
  unsigned long long address = 0;
  PyObject *object = nullptr, *stream = Py_None;
  int device = -1;
  if (!PyArg_ParseTuple(arguments, format, &address, &object, &device, &stream)) return nullptr;
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return nullptr;
  Py_buffer host;
  if (PyObject_GetBuffer(object, &host, buffer_flags) != 0) return nullptr;
  DriverError error;
  bool done;
  {
    WithoutGil released;
    done = copy(address, &host, to_device, device, value.v_ptr, &error);
  }
  PyBuffer_Release(&host);
  if (!done) return set_python_error(error);
  Py_RETURN_NONE;
}

PyObject* copy_to_device(PyObject*, PyObject* arguments) {
  return copy_memory(arguments, "KOi|O:copy_to_device", PyBUF_C_CONTIGUOUS, true);
}

PyObject* copy_from_device(PyObject*, PyObject* arguments) {
  return copy_memory(arguments, "KOi|O:copy_from_device", PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE, false);
}

PyMethodDef kMethods[] = {
    {"empty_tensor", empty_tensor, METH_VARARGS,
     "empty_tensor(shape: tuple[int, ...], code: int, bits: int, device: int) -> Object\n--\n\n"
     "A tensor with memory of its own: on the device with that ordinal, or on the host for -1."},
    {"copy_to_device", copy_to_device, METH_VARARGS,
     "copy_to_device(address: int, data: Buffer, device: int, stream: object = None) -> None\n--\n\n"
     "Copies bytes into device memory in the stream's order. They must stay alive until the stream has "
     "copied them."},
    {"copy_from_device", copy_from_device, METH_VARARGS,
     "copy_from_device(address: int, target: Buffer, device: int, stream: object = None) -> None\n--\n\n"
     "Fills a writable buffer from device memory in the stream's order, and waits for it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_memory(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
