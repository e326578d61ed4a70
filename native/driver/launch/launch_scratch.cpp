// SPDX-License-Identifier: Apache-2.0
//
// Allocates and frees scratch.
#include "driver/launch/launch_scratch.h"

#include "driver/devices/device_program.h"
#include "driver/devices/devices.h"
#include "driver/launch/launch_diagnosis.h"
#include "driver/launch/queue_room.h"
#include "driver/library/driver_library.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

constexpr int64_t kPoolAlignment = 256;
constexpr uint64_t kPartKept = 32;  // of a device's memory

bool has_no_blocks(const weft_launch& launch) {
  return launch.grid[0] <= 0 || launch.grid[1] <= 0 || launch.grid[2] <= 0;
}

// bytes per block x blocks, or a ValueError with both.
bool total_bytes(const weft_scratch& wanted, const weft_launch& launch, const char* kernel, int64_t* bytes,
                 DriverError* error) {
  // With room for the alignment, so that adding it later cannot overflow either.
  int64_t padded = 0;
  bool overflows = __builtin_add_overflow(wanted.bytes_per_block, wanted.alignment, &padded);
  for (int64_t blocks : launch.grid) overflows = overflows || __builtin_mul_overflow(padded, blocks, &padded);
  if (!overflows) {
    *bytes = wanted.bytes_per_block * launch.grid[0] * launch.grid[1] * launch.grid[2];
    return true;
  }
  error->kernel = kernel;
  return error->value("launch of " + std::string(kernel) + ": " + std::to_string(wanted.bytes_per_block) +
                      " bytes of scratch for each of " + std::to_string(launch.grid[0]) + " x " +
                      std::to_string(launch.grid[1]) + " x " + std::to_string(launch.grid[2]) +
                      " blocks are more than fit 64 bits");
}

// Asks a device's default pool, once, to keep up to a 32nd of its memory from one synchronization to the
// next: by default it gives all of it back to the system each time, and mapping 256 MB again takes as long as
// three copies of them. A program that has chosen how much is kept is not overruled. Failures only cost time.
// Not in a capture, whose memory is the graph's: a question about the pool, refused there, would end it.
void keep_scratch(Device* device, cuda::CUstream stream) {
  if (device == nullptr || device->keeps_scratch.load(std::memory_order_relaxed) || is_capturing(stream))
    return;
  if (device->keeps_scratch.exchange(true, std::memory_order_relaxed)) return;
  const RelaxedCapture relaxed;  // other threads' captures
  cuda::CUmemoryPool pool = nullptr;
  uint64_t kept = 0;
  size_t memory = 0;
  if (driver().cuDeviceGetDefaultMemPool(&pool, device->handle) != cuda::CUDA_SUCCESS ||
      driver().cuMemPoolGetAttribute(pool, cuda::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept) !=
          cuda::CUDA_SUCCESS ||
      kept != 0 || driver().cuDeviceTotalMem(&memory, device->handle) != cuda::CUDA_SUCCESS) {
    return;
  }
  kept = memory / kPartKept;
  driver().cuMemPoolSetAttribute(pool, cuda::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
}

}  // namespace

cuda::CUdeviceptr allocate_from_pool(size_t bytes, cuda::CUstream stream, int32_t device,
                                     const std::string& what, DriverError* error) {
  keep_scratch(device_or_null(device), stream);
  cuda::CUdeviceptr address = 0;
  const cuda::CUresult result =
      queue_work(stream, device, [&] { return driver().cuMemAllocAsync(&address, bytes, stream); });
  if (result == cuda::CUDA_SUCCESS) return address;
  std::string explanation = explain_asynchronous_error(result);
  if (result == cuda::CUDA_ERROR_NOT_SUPPORTED) {
    explanation = "the device has no memory pools; choose another source with weft.set_allocator";
  }
  error->cuda(
      result, "cuMemAllocAsync",
      "allocating " + std::to_string(bytes) + " bytes of " + what + " on cuda:" + std::to_string(device),
      explanation);
  return 0;
}

bool free_to_pool(cuda::CUdeviceptr address, cuda::CUstream stream, int32_t device, DriverError* error) {
  const cuda::CUresult result =
      queue_work(stream, device, [&] { return driver().cuMemFreeAsync(address, stream); });
  if (result == cuda::CUDA_SUCCESS) return true;
  return error->cuda(result, "cuMemFreeAsync", "freeing scratch memory on cuda:" + std::to_string(device),
                     explain_asynchronous_error(result));
}

bool LaunchScratch::take_from_pool(const weft_scratch& wanted, int64_t bytes, void** slot,
                                   DriverError* error) {
  // Stronger alignment than the pool's is reached by moving forward in a larger block.
  const int64_t spare = wanted.alignment > kPoolAlignment ? wanted.alignment : 0;
  const cuda::CUdeviceptr address =
      allocate_from_pool(static_cast<size_t>(bytes + spare), place_.stream, place_.device,
                         "scratch for " + std::string(place_.name), error);
  if (address == 0) return false;
  pooled_.push_back(address);
  const auto alignment = static_cast<cuda::CUdeviceptr>(wanted.alignment);
  const cuda::CUdeviceptr start = spare == 0 ? address : (address + alignment - 1) / alignment * alignment;
  *slot = reinterpret_cast<void*>(start);
  return true;
}

int32_t LaunchScratch::take(const weft_scratch& wanted, const weft_launch& launch, void** slot) {
  *slot = nullptr;
  if (has_no_blocks(launch)) return 0;  // nothing runs, or the launch is refused
  DriverError error;
  int64_t bytes = 0;
  if (!total_bytes(wanted, launch, place_.name, &bytes, &error)) return set_ffi_error(error);
  error.kernel = place_.name;
  return take_bytes(wanted, bytes, slot, &error);
}

int32_t LaunchScratch::take(const weft_scratch& wanted, void** slot) {
  DriverError error;
  return take_bytes(wanted, wanted.bytes_per_block, slot, &error);
}

int32_t LaunchScratch::take_bytes(const weft_scratch& wanted, int64_t bytes, void** slot,
                                  DriverError* error) {
  *slot = nullptr;
  void* keeper = nullptr;
  if (take_from_allocator(wanted, bytes, place_, slot, &keeper) != 0) return -1;
  if (keeper != nullptr) {
    kept_.push_back(keeper);
    return 0;
  }
  if (wanted.kind == WEFT_SCRATCH_PROFILE) {
    error->runtime(
        "profile scratch of " + std::string(place_.name) +
        ": no allocator is set, and memory of this launch would be freed before a profiler reads it; "
        "set one with weft.set_profile_allocator, which keeps its arrays");
    return set_ffi_error(*error);
  }
  if (take_lent(wanted, bytes, slot) != 0) return -1;
  if (*slot != nullptr) return 0;
  return take_from_pool(wanted, bytes, slot, error) ? 0 : set_ffi_error(*error);
}

// Not under capture: a library cannot tell whether it is its own, whose graph keeps the memory, or another's,
// after which it would give the memory to others while the graph's replays use it.
int32_t LaunchScratch::take_lent(const weft_scratch& wanted, int64_t bytes, void** slot) {
  int32_t status = 0;
  if (driver().cuStreamIsCapturing(place_.stream, &status) != cuda::CUDA_SUCCESS || status != 0) return 0;
  const int64_t spare = wanted.alignment > kPoolAlignment ? wanted.alignment : 0;
  DLManagedTensorVersioned* lent = nullptr;
  if (take_from_library(bytes + spare, place_, &lent) != 0) return -1;
  if (lent == nullptr) return 0;
  lent_.push_back(lent);
  const auto address = reinterpret_cast<uintptr_t>(lent->dl_tensor.data) + lent->dl_tensor.byte_offset;
  const auto alignment = static_cast<uintptr_t>(wanted.alignment);
  const uintptr_t start = (address + alignment - 1) / alignment * alignment;
  if (start - address > static_cast<uintptr_t>(spare)) return 0;  // less aligned than asked for: the pool
  *slot = reinterpret_cast<void*>(start);
  return 0;
}

bool LaunchScratch::give_back(DriverError* error) {
  bool all = true;
  for (cuda::CUdeviceptr address : pooled_) {
    DriverError later;  // only the first error is reported
    all = free_to_pool(address, place_.stream, place_.device, all ? error : &later) && all;
  }
  pooled_.resize(0);
  for (void* keeper : kept_) give_back_to_allocator(keeper);
  kept_.resize(0);
  for (DLManagedTensorVersioned* lent : lent_) {
    if (lent->deleter != nullptr) lent->deleter(lent);
  }
  lent_.resize(0);
  return all;
}

LaunchScratch::~LaunchScratch() {
  DriverError ignored;  // the launch's own error has been reported
  give_back(&ignored);
}

}  // namespace weft
