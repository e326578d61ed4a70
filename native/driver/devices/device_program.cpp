// SPDX-License-Identifier: Apache-2.0
//
// Loads a program on each device once.
#include "driver/devices/device_program.h"

#include <chrono>
#include <memory>
#include <new>
#include <unordered_set>
#include <utility>

#include "driver/devices/device_image.h"
#include "driver/devices/unload_queue.h"
#include "driver/library/driver_library.h"

namespace weft {

using cuda::CUcontext;
using cuda::CUresult;

const char* intern_name(const std::string& name) {
  static std::mutex* mutex = new std::mutex;
  static auto* names = new std::unordered_set<std::string>;  // nodes do not move
  std::lock_guard<std::mutex> lock(*mutex);
  return names->insert(name).first->c_str();
}

bool is_capturing(cuda::CUstream stream) {
  int32_t status = cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = driver().cuStreamIsCapturing(stream, &status);
  if (result == cuda::CUDA_SUCCESS) return status != cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  return result == cuda::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

int32_t kernel_attribute(const LoadedKernel& kernel, const Device& device, int32_t attribute,
                         int32_t otherwise) {
  int value = otherwise;
  CUresult result =
      kernel.is_library_kernel
          ? driver().cuKernelGetAttribute(&value, attribute, reinterpret_cast<cuda::CUkernel>(kernel.handle),
                                          device.handle)
          : driver().cuFuncGetAttribute(&value, attribute, kernel.function);
  return result == cuda::CUDA_SUCCESS ? value : otherwise;
}

namespace {

constexpr int kLoadsUnderCapture = 12030;  // the first driver that loads code while the thread captures

CUresult set_kernel_attribute(const LoadedKernel& kernel, const Device& device, int32_t attribute,
                              int value) {
  if (kernel.is_library_kernel) {
    return driver().cuKernelSetAttribute(attribute, value, reinterpret_cast<cuda::CUkernel>(kernel.handle),
                                         device.handle);
  }
  return driver().cuFuncSetAttribute(kernel.function, attribute, value);
}

}  // namespace

bool allow_shared_memory(LoadedKernel* kernel, const Device* device, int64_t bytes, DriverError* error) {
  if (bytes <= kernel->dynamic_shared_limit.load(std::memory_order_relaxed)) return true;
  const int32_t most = device->shared_bytes_opt_in - kernel->static_shared_bytes;
  if (bytes > most) return true;  // the launch fails, and is explained with both numbers
  CUresult result =
      set_kernel_attribute(*kernel, *device, cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most);
  if (result != cuda::CUDA_SUCCESS) {
    error->kernel = kernel->name;
    return error->cuda(result, kernel->is_library_kernel ? "cuKernelSetAttribute" : "cuFuncSetAttribute",
                       "allowing " + std::string(kernel->name) + " " + std::to_string(most) +
                           " bytes of dynamic shared memory on " + device->text());
  }
  kernel->dynamic_shared_limit.store(most, std::memory_order_relaxed);
  return true;
}

bool allow_large_clusters(LoadedKernel* kernel, const Device* device, DriverError* error) {
  if (kernel->allows_large_clusters.load(std::memory_order_relaxed)) return true;
  CUresult result =
      set_kernel_attribute(*kernel, *device, cuda::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  if (result != cuda::CUDA_SUCCESS) {
    error->kernel = kernel->name;
    return error->cuda(
        result, kernel->is_library_kernel ? "cuKernelSetAttribute" : "cuFuncSetAttribute",
        "allowing " + std::string(kernel->name) + " clusters of more than 8 blocks on " + device->text());
  }
  kernel->allows_large_clusters.store(true, std::memory_order_relaxed);
  return true;
}

DeviceProgram::DeviceProgram(std::string cubin, std::vector<std::string> kernel_names,
                             std::string function_name, std::string architecture, std::string missing_driver)
    : cubin_(std::move(cubin)),
      kernel_names_(std::move(kernel_names)),
      function_name_(std::move(function_name)),
      architecture_(std::move(architecture)),
      missing_driver_(std::move(missing_driver)) {}

void DeviceProgram::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

DeviceProgram::~DeviceProgram() {
  const char* name = library_ == nullptr ? "" : intern_name(function_name_);
  queue_unload(library_, nullptr, nullptr, name);
  for (auto& per_device : loaded_) {
    for (auto& slot : per_device) {
      const std::unique_ptr<LoadedProgram> program(slot.load(std::memory_order_acquire));
      if (program != nullptr && program->module != nullptr) {
        cuda::CUcontext context = program->device->primary.load(std::memory_order_acquire);
        queue_unload(nullptr, program->module, context, intern_name(function_name_));
      }
    }
  }
}

bool DeviceProgram::fail_load(CUresult result, const char* function, const Device* device,
                              DriverError* error) const {
  std::string explanation = explain_refused_ptx(result, device->architecture());
  switch (result) {
    case cuda::CUDA_ERROR_NO_BINARY_FOR_GPU:
      explanation = "it was assembled for " + architecture_ + ", and " + device->text() +
                    " cannot run that; compile it with --gpu-arch " + device->architecture();
      break;
    case cuda::CUDA_ERROR_INVALID_IMAGE:
      explanation = explain_invalid_image(cubin_, device->architecture());
      break;
    case cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case cuda::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case cuda::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      explanation =
          "a stream is being captured into a graph, and code cannot be loaded meanwhile; call the "
          "function's preload(" +
          std::to_string(device->ordinal) + ") before the capture";
      break;
    case cuda::CUDA_ERROR_OUT_OF_MEMORY:
      explanation = "the device has no memory left for the code";
      break;
    default:
      break;
  }
  return error->cuda(result, function, "loading " + function_name_ + " on " + device->text(), explanation);
}

bool DeviceProgram::load_library(Device* device, DriverError* error) {
  if (library_ != nullptr) return true;
  cuda::CUlibrary library = nullptr;
  CUresult result =
      driver().cuLibraryLoadData(&library, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != cuda::CUDA_SUCCESS) return fail_load(result, "cuLibraryLoadData", device, error);
  library_ = library;
  return true;
}

// Fills one kernel of a program whose library or module is loaded, and puts its code on the device, so that
// the first launch neither loads nor waits.
bool DeviceProgram::find_kernel(LoadedProgram* program, size_t index, DriverError* error) {
  LoadedKernel& kernel = program->kernels[index];
  kernel.name = intern_name(kernel_names_[index]);
  kernel.is_library_kernel = program->module == nullptr;
  error->kernel = kernel.name;
  CUresult result;
  if (kernel.is_library_kernel) {
    cuda::CUkernel handle = nullptr;
    result = driver().cuLibraryGetKernel(&handle, library_, kernel.name);
    if (result != cuda::CUDA_SUCCESS) return fail_load(result, "cuLibraryGetKernel", program->device, error);
    kernel.handle = reinterpret_cast<cuda::CUfunction>(handle);
    result = driver().cuKernelGetFunction(&kernel.function, handle);
    if (result != cuda::CUDA_SUCCESS) return fail_load(result, "cuKernelGetFunction", program->device, error);
  } else {
    result = driver().cuModuleGetFunction(&kernel.function, program->module, kernel.name);
    if (result != cuda::CUDA_SUCCESS) return fail_load(result, "cuModuleGetFunction", program->device, error);
    kernel.handle = kernel.function;
  }
  if (driver().cuFuncLoad != nullptr) {
    result = driver().cuFuncLoad(kernel.function);
    if (result != cuda::CUDA_SUCCESS) return fail_load(result, "cuFuncLoad", program->device, error);
  }
  const Device& device = *program->device;
  kernel.static_shared_bytes = kernel_attribute(kernel, device, cuda::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 0);
  kernel.dynamic_shared_limit.store(
      kernel_attribute(kernel, device, cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0),
      std::memory_order_relaxed);
  error->kernel.clear();
  return true;
}

LoadedProgram* DeviceProgram::load(int32_t policy, Device* device, CUcontext context, cuda::CUstream stream,
                                   DriverError* error) {
  const bool has_reports = cubin_.find(kReportVariable) != std::string::npos;
  const bool is_captured = is_capturing(stream);
  // Loading may use the legacy stream, which a capture of a stream ordered by it forbids; reports allocate.
  if (is_captured && (driver_version() < kLoadsUnderCapture || has_reports || is_capturing(nullptr))) {
    fail_load(cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamIsCapturing", device, error);
    return nullptr;
  }
  if (!check_device_image(cubin_, function_name_, error)) return nullptr;
  if (!is_captured) drain_unload_queue();
  adopt_primary_context(device);
  const RelaxedCapture relaxed;
  std::lock_guard<std::mutex> lock(mutex_);
  LoadedProgram* present = loaded(policy, device->ordinal);
  if (present != nullptr) return present;
  const auto start = std::chrono::steady_clock::now();
  auto program = std::make_unique<LoadedProgram>();
  program->device = device;
  // Only a primary context is sure to stay the same: it is retained here.
  if (context == device->primary.load(std::memory_order_acquire)) program->home = context;
  program->architecture = architecture_;
  program->kernel_count = kernel_names_.size();
  program->kernels = std::make_unique<LoadedKernel[]>(kernel_names_.size());
  if (kind(policy) == 1) {
    if (!load_library(device, error)) return nullptr;
  } else {
    CUresult result = driver().cuModuleLoadData(&program->module, cubin_.data());
    if (result != cuda::CUDA_SUCCESS) {
      fail_load(result, "cuModuleLoadData", device, error);
      return nullptr;
    }
  }
  for (size_t index = 0; index < kernel_names_.size(); ++index) {
    if (find_kernel(program.get(), index, error)) continue;
    // The library is kept for the next try; a module would be loaded again, so it is unloaded.
    if (program->module != nullptr) driver().cuModuleUnload(program->module);
    return nullptr;
  }
  if (has_reports && !Findings::make(library_, program->module, device->ordinal, &program->findings, error)) {
    if (program->module != nullptr) driver().cuModuleUnload(program->module);
    return nullptr;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  program->load_seconds = elapsed.count();
  loaded_[kind(policy)][device->ordinal].store(program.get(), std::memory_order_release);
  return program.release();
}

}  // namespace weft
