// SPDX-License-Identifier: Apache-2.0
//
// Tensors that own their memory.
#include "driver/devices/owned_tensor.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "driver/devices/devices.h"
#include "driver/devices/unload_queue.h"
#include "driver/launch/launch_diagnosis.h"
#include "driver/library/driver_library.h"
#include "runtime/describe.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 64;  // of host memory; device memory has at least 256
constexpr int32_t kMostRank = 32;

// Enters the context for `device` (-1: the caller's).
bool enter(int32_t* device, cuda::CUcontext* context, ContextGuard* guard, DriverError* error) {
  if (!ensure_driver(error)) return false;
  if (*device != -1 && device_at(*device, error) == nullptr) return false;
  return choose_context(device, nullptr, context, error) && guard->enter(*context, error);
}

bool fail(cuda::CUresult result, const char* function, size_t bytes, int32_t device, DriverError* error) {
  return error->cuda(result, function,
                     "allocating " + std::to_string(bytes) + " bytes on cuda:" + std::to_string(device),
                     explain_asynchronous_error(result));
}

// The tensor's memory and its shape.
struct OwnedTensor {
  DLManagedTensorVersioned managed;
  cuda::CUcontext context;  // NULL: host memory
  int64_t sizes[kMostRank];
  int64_t strides[kMostRank];
};

void delete_tensor(DLManagedTensorVersioned* managed) {
  const std::unique_ptr<OwnedTensor> owned(static_cast<OwnedTensor*>(managed->manager_ctx));
  void* memory = managed->dl_tensor.data;
  if (owned->context != nullptr) {
    queue_free(reinterpret_cast<cuda::CUdeviceptr>(memory), owned->context);
  } else {
    std::free(memory);
  }
}

// Sizes into the tensor, strides derived; the number of elements, or -1 with an error.
int64_t set_shape(const int64_t* shape, int32_t rank, OwnedTensor* owned, DriverError* error) {
  if (rank > kMostRank) {
    error->value("shape has " + std::to_string(rank) + " dimensions, expected at most " +
                 std::to_string(kMostRank));
    return -1;
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
      error->value("shape[" + std::to_string(axis) + "] is " + std::to_string(shape[axis]) +
                   ", expected 0 or more");
      return -1;
    }
    if (__builtin_mul_overflow(elements, shape[axis], &elements)) {
      error->value("shape " + describe_shape(tensor) + " has more elements than fit 64 bits");
      return -1;
    }
  }
  return elements;
}

bool allocate_device(OwnedTensor* owned, size_t bytes, DriverError* error) {
  const WithoutGil released;
  ContextGuard guard;
  int32_t device = owned->managed.dl_tensor.device.device_id;
  drain_unload_queue();  // before a context is chosen, since it switches contexts too
  if (!enter(&device, &owned->context, &guard, error)) return false;
  const RelaxedCapture relaxed;
  if (bytes == 0) return guard.leave(error);
  cuda::CUdeviceptr address = 0;
  const cuda::CUresult result = driver().cuMemAlloc(&address, bytes);
  if (result != cuda::CUDA_SUCCESS) return fail(result, "cuMemAlloc", bytes, device, error);
  owned->managed.dl_tensor.data = reinterpret_cast<void*>(address);
  return guard.leave(error);
}

bool allocate(OwnedTensor* owned, int64_t elements, DriverError* error) {
  DLTensor& tensor = owned->managed.dl_tensor;
  const int64_t item_bytes = (int64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, item_bytes, &bytes))
    return error->value("the tensor has more bytes than fit 64 bits");
  if (tensor.device.device_type == kDLCUDA) return allocate_device(owned, static_cast<size_t>(bytes), error);
  if (tensor.device.device_type != kDLCPU)
    return error->runtime("no allocator is set for " + describe_device(tensor.device));
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment) / kAlignment * kAlignment;
  tensor.data = std::aligned_alloc(kAlignment, rounded);
  if (tensor.data != nullptr) return true;
  return error->memory("the host has no memory for a tensor of " + std::to_string(bytes) + " bytes");
}

}  // namespace

DLManagedTensorVersioned* make_owned_tensor(const DLTensor& prototype, DriverError* error) {
  auto* owned = new (std::nothrow) OwnedTensor{};
  if (owned == nullptr) {
    error->memory("the host has no memory for a tensor");
    return nullptr;
  }
  owned->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = delete_tensor;
  owned->managed.dl_tensor.dtype = prototype.dtype;
  owned->managed.dl_tensor.device = prototype.device;
  const int64_t elements = set_shape(prototype.shape, prototype.ndim, owned, error);
  if (elements >= 0 && allocate(owned, elements, error)) return &owned->managed;
  delete_tensor(&owned->managed);
  return nullptr;
}

}  // namespace weft
