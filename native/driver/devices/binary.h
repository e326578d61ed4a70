// SPDX-License-Identifier: Apache-2.0
//
// The binaries of load_binary: functions that users launch by handle. The registry knows each handle's
// device, context and parameters, and whether it was unloaded. The GIL is its lock.
#ifndef WEFT_DRIVER_BINARY_H_
#define WEFT_DRIVER_BINARY_H_

#include <string>
#include <vector>

#include "driver/devices/device_program.h"

namespace weft {

struct Binary {
  LoadedKernel kernel;
  Device* device = nullptr;
  cuda::CUcontext context = nullptr;
  cuda::CUmodule module = nullptr;  // owned until `is_unloaded`
  bool is_unloaded = false;
  int32_t holds = 0;                    // launches being prepared
  bool knows_parameters = false;        // the driver is 12.4 or newer
  std::vector<size_t> parameter_bytes;  // by position, where known
};

// A function's properties, found when loading.
struct BinaryResources {
  int32_t registers = 0;
  int32_t spills = 0;  // 32-bit words of local memory
  int32_t max_threads = 0;
};

// Loads in the caller's context if it is of that device, else in the device's primary one, and restores.
// Called without the GIL; the result is owned by the caller until it is registered.
Binary* load_binary(const std::string& name, const std::string& code, int64_t shared_bytes, int32_t device,
                    BinaryResources* resources, DriverError* error);

// Takes ownership; entries are kept for the life of the process, so that stale handles are recognized.
void register_binary(Binary* binary);

// The entry of a function's handle, or nullptr for a foreign one.
Binary* find_binary(cuda::CUfunction function);

// Keeps a binary's module loaded while it exists: a launch runs its caller's code (hooks, __index__), which
// may unload that very module. The last hold queues a module that was unloaded meanwhile. Needs the GIL.
class BinaryHold {
 public:
  explicit BinaryHold(Binary* binary);
  BinaryHold(const BinaryHold&) = delete;
  BinaryHold& operator=(const BinaryHold&) = delete;
  ~BinaryHold();

 private:
  Binary* binary_;
};

// False with an error for what cannot be a function's address: the driver dereferences handles unchecked.
bool check_function_handle(cuda::CUfunction function, DriverError* error);

// Queues a module for unloading; its functions are refused from now on. False with an error for a handle
// that is not loaded.
bool unload_binary(cuda::CUmodule module, DriverError* error);

// Describes a foreign function, for one launch in the current context.
bool describe_foreign(cuda::CUfunction function, Device* device, Binary* binary);

}  // namespace weft

#endif  // WEFT_DRIVER_BINARY_H_
