// SPDX-License-Identifier: Apache-2.0
//
// Scratch memory of launches and of calls: from the calling Python context's allocator if it has one, from
// that of the library of the call's tensors (torch's caching allocator) if they are in the order of its
// stream, else from the driver's stream-ordered pool, whose allocations and frees a graph can capture.
#ifndef WEFT_DRIVER_LAUNCH_SCRATCH_H_
#define WEFT_DRIVER_LAUNCH_SCRATCH_H_

#include <dlpack/dlpack.h>
#include <weft/runtime_table.h>

#include "driver/launch/pointer_check.h"
#include "driver/launch/small_vector.h"
#include "driver/library/driver_error.h"
#include "driver/library/driver_functions.h"

namespace weft {

constexpr int64_t kMostScratchAlignment = int64_t{1} << 20;

// What scratch is for. The context of the stream is current.
struct ScratchPlace {
  const char* name;  // of the kernel or the host function
  int32_t device;    // ordinal, or -1: the current one
  cuda::CUstream stream;
  int check = kPointerDevice;  // enum PointerCheck: how a user allocator's result is checked
};

// The memory of one launch or one array, freed in stream order at the latest when it is destroyed.
class LaunchScratch {
 public:
  explicit LaunchScratch(const ScratchPlace& place) : place_(place) {}
  LaunchScratch(const LaunchScratch&) = delete;
  LaunchScratch& operator=(const LaunchScratch&) = delete;
  ~LaunchScratch();

  // Memory for all blocks of the launch, its address in `*slot`; NULL if the launch has no blocks. 0, or
  // -1 with the FFI error set.
  int32_t take(const weft_scratch& wanted, const weft_launch& launch, void** slot);
  // `wanted.bytes_per_block` bytes, however many blocks there are; otherwise the same.
  int32_t take(const weft_scratch& wanted, void** slot);
  // Frees it after the work queued on the stream so far. True, or false with the first error.
  bool give_back(DriverError* error);

 private:
  int32_t take_bytes(const weft_scratch& wanted, int64_t bytes, void** slot, DriverError* error);
  bool take_from_pool(const weft_scratch& wanted, int64_t bytes, void** slot, DriverError* error);
  // `*slot` stays NULL if the caller's library gives no memory.
  int32_t take_lent(const weft_scratch& wanted, int64_t bytes, void** slot);

  ScratchPlace place_;
  SmallVector<cuda::CUdeviceptr, 4> pooled_;        // allocated here
  SmallVector<void*, 4> kept_;                      // keepers of users' allocators; owned
  SmallVector<DLManagedTensorVersioned*, 4> lent_;  // of the caller's library; owned
};

// Bytes of the pool on the stream, in the current context; 0 with an error. `what`: "scratch of add_one".
cuda::CUdeviceptr allocate_from_pool(size_t bytes, cuda::CUstream stream, int32_t device,
                                     const std::string& what, DriverError* error);
bool free_to_pool(cuda::CUdeviceptr address, cuda::CUstream stream, int32_t device, DriverError* error);

}  // namespace weft

#endif  // WEFT_DRIVER_LAUNCH_SCRATCH_H_
