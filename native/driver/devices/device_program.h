// SPDX-License-Identifier: Apache-2.0
//
// The device code of one image: its cubin, and its loaded form on each device used so far.
//
// Ownership: a program is reference-counted; the code image (native/runtime/code_image) holds one
// reference and `weft_state.driver_state` borrows it. The program owns its library, its modules and the
// tables below; releasing the last reference only queues them for unloading (unload_queue.h).
#ifndef WEFT_DRIVER_DEVICE_PROGRAM_H_
#define WEFT_DRIVER_DEVICE_PROGRAM_H_

#include <weft/runtime_table.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/devices/devices.h"
#include "driver/devices/findings.h"

namespace weft {

// A kernel on one device. `function` is its CUfunction in the context it was loaded in, 90 ns faster to
// launch than `handle`, which is valid in every context of the device: a CUkernel under the library policies,
// else the same CUfunction.
struct LoadedKernel {
  const char* name = "";  // interned, never freed
  cuda::CUfunction handle = nullptr;
  cuda::CUfunction function = nullptr;
  bool is_library_kernel = false;
  int32_t static_shared_bytes = 0;
  std::atomic<int32_t> dynamic_shared_limit{0};    // currently allowed; raised when needed
  std::atomic<bool> allows_large_clusters{false};  // more than 8 blocks, enabled once
  std::atomic<int32_t> max_clusters{0};            // of the kernel's own shape, once asked for
};

struct LoadedProgram {
  Device* device = nullptr;
  cuda::CUmodule module = nullptr;  // context policy only
  double load_seconds = 0;          // of loading
  cuda::CUcontext home = nullptr;   // where the kernels' functions are valid: the primary one, or NULL
  std::string architecture;         // sm_90a, for messages
  size_t kernel_count = 0;
  std::unique_ptr<LoadedKernel[]> kernels;
  std::unique_ptr<Findings> findings;  // NULL if its kernels check nothing
};

class DeviceProgram {
 public:
  // Makes no driver call. `function_name` is the host function's, for messages; `missing_driver` says why no
  // driver here loads the code, and is empty where CUDA's does.
  DeviceProgram(std::string cubin, std::vector<std::string> kernel_names, std::string function_name,
                std::string architecture, std::string missing_driver);
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  // Any thread, with or without the GIL; deletes the program at zero.
  void release();

  // The program as loaded on the device under the policy, or NULL: no lock, no driver call.
  LoadedProgram* loaded(int32_t policy, int32_t device) const {
    return loaded_[kind(policy)][device].load(std::memory_order_acquire);
  }
  // The same, loaded on first use. `context` is one of the device and current; `stream` is the one to run it
  // on (loading under capture is an error). NULL with an error.
  LoadedProgram* load(int32_t policy, Device* device, cuda::CUcontext context, cuda::CUstream stream,
                      DriverError* error);

  const std::string& function_name() const { return function_name_; }
  const std::vector<std::string>& kernel_names() const { return kernel_names_; }
  const std::string& missing_driver() const { return missing_driver_; }
  cuda::CUlibrary library() const { return library_; }  // once loaded under another policy than context

 private:
  ~DeviceProgram();

  static int kind(int32_t policy) { return policy == WEFT_LOAD_CONTEXT ? 0 : 1; }
  bool load_library(Device* device, DriverError* error);
  bool find_kernel(LoadedProgram* program, size_t index, DriverError* error);
  bool fail_load(cuda::CUresult result, const char* function, const Device* device, DriverError* error) const;

  const std::string cubin_;
  const std::vector<std::string> kernel_names_;
  const std::string function_name_;
  const std::string architecture_;
  const std::string missing_driver_;
  std::atomic<int64_t> references_{1};
  std::mutex mutex_;  // held while loading; never while launching
  cuda::CUlibrary library_ = nullptr;
  std::atomic<LoadedProgram*> loaded_[2][kMaxDevices]{};
};

// A copy of the text that is never freed; equal texts share it.
const char* intern_name(const std::string& name);

// Lets the kernel use `bytes` of dynamic shared memory if the device can; the launch reports a limit that
// stays too low. False with an error only if the driver refuses the request itself.
bool allow_shared_memory(LoadedKernel* kernel, const Device* device, int64_t bytes, DriverError* error);
bool allow_large_clusters(LoadedKernel* kernel, const Device* device, DriverError* error);

// An attribute of a kernel on its device, or `otherwise` if the driver does not tell.
int32_t kernel_attribute(const LoadedKernel& kernel, const Device& device, int32_t attribute,
                         int32_t otherwise);

// True if the stream is being captured into a graph (or must not be touched because another is).
bool is_capturing(cuda::CUstream stream);

}  // namespace weft

#endif  // WEFT_DRIVER_DEVICE_PROGRAM_H_
