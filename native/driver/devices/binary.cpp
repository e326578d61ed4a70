// SPDX-License-Identifier: Apache-2.0
//
// Loading, finding and dropping binaries.
#include "driver/devices/binary.h"

#include <cstdio>
#include <memory>
#include <unordered_map>

#include "driver/devices/device_image.h"
#include "driver/devices/unload_queue.h"
#include "driver/library/driver_library.h"

namespace weft {

using cuda::CUresult;

namespace {

constexpr int64_t kPlainShared = 49152;  // usable without opting in
constexpr uintptr_t kLeastHandle = 4096;
constexpr uintptr_t kMostHandle = (uintptr_t{1} << 56) - 1;  // of user space

std::unordered_map<cuda::CUfunction, std::unique_ptr<Binary>>& registry() {
  static auto* only = new std::unordered_map<cuda::CUfunction, std::unique_ptr<Binary>>;
  return *only;
}

bool fail(CUresult result, const char* function, const std::string& name, const Device& device,
          DriverError* error, const std::string& code = {}) {
  error->kernel = name;
  std::string explanation = explain_refused_ptx(result, device.architecture());
  if (result == cuda::CUDA_ERROR_NO_BINARY_FOR_GPU) {
    explanation = "the code is not for " + device.architecture();
  } else if (result == cuda::CUDA_ERROR_INVALID_IMAGE) {
    explanation = explain_invalid_image(code, device.architecture());
  } else if (result == cuda::CUDA_ERROR_NOT_FOUND) {
    explanation = "the code has no kernel of that name";
  } else if (result == cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
             result == cuda::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) {
    explanation = "a stream is being captured into a graph; load before the capture";
  }
  return error->cuda(result, function, "loading " + name + " on " + device.text(), explanation);
}

void read_parameters(Binary* binary) {
  if (driver().cuFuncGetParamInfo == nullptr) return;
  size_t offset = 0, bytes = 0;
  CUresult result = cuda::CUDA_SUCCESS;
  for (size_t index = 0; result == cuda::CUDA_SUCCESS; ++index) {
    result = driver().cuFuncGetParamInfo(binary->kernel.function, index, &offset, &bytes);
    if (result == cuda::CUDA_SUCCESS) binary->parameter_bytes.push_back(bytes);
  }
  // The driver's sign that there are no more; anything else means that it cannot tell.
  binary->knows_parameters = result == cuda::CUDA_ERROR_INVALID_VALUE;
}

// More than 48 kB of shared memory is enabled once, up to the device's limit minus the static part.
bool allow_shared(Binary* binary, int64_t shared_bytes, DriverError* error) {
  const int64_t all = shared_bytes + binary->kernel.static_shared_bytes;
  const std::string name = binary->kernel.name;
  if (all > binary->device->shared_bytes_opt_in) {
    error->kernel = name;
    return error->value("loading " + name + ": it needs " + std::to_string(all) +
                        " bytes of shared memory (" + std::to_string(binary->kernel.static_shared_bytes) +
                        " static, " + std::to_string(shared_bytes) + " dynamic), " + binary->device->text() +
                        " allows " + std::to_string(binary->device->shared_bytes_opt_in));
  }
  if (all <= kPlainShared) return true;
  CUresult result = driver().cuFuncSetCacheConfig(binary->kernel.function, cuda::CU_FUNC_CACHE_PREFER_SHARED);
  if (result != cuda::CUDA_SUCCESS) return fail(result, "cuFuncSetCacheConfig", name, *binary->device, error);
  return allow_shared_memory(&binary->kernel, binary->device, shared_bytes, error);
}

bool find_function(Binary* binary, const std::string& name, int64_t shared_bytes, BinaryResources* resources,
                   DriverError* error) {
  LoadedKernel& kernel = binary->kernel;
  kernel.name = intern_name(name);
  CUresult result = driver().cuModuleGetFunction(&kernel.function, binary->module, kernel.name);
  if (result != cuda::CUDA_SUCCESS) return fail(result, "cuModuleGetFunction", name, *binary->device, error);
  kernel.handle = kernel.function;
  if (driver().cuFuncLoad != nullptr) {
    result = driver().cuFuncLoad(kernel.function);
    if (result != cuda::CUDA_SUCCESS) return fail(result, "cuFuncLoad", name, *binary->device, error);
  }
  int32_t local_bytes = 0, dynamic_limit = 0;
  const struct {
    int32_t attribute;
    int32_t* value;
  } wanted[] = {
      {cuda::CU_FUNC_ATTRIBUTE_NUM_REGS, &resources->registers},
      {cuda::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local_bytes},
      {cuda::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &resources->max_threads},
      {cuda::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &kernel.static_shared_bytes},
      {cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &dynamic_limit},
  };
  for (const auto& row : wanted) {
    result = driver().cuFuncGetAttribute(row.value, row.attribute, kernel.function);
    if (result != cuda::CUDA_SUCCESS) return fail(result, "cuFuncGetAttribute", name, *binary->device, error);
  }
  resources->spills = local_bytes / 4;
  kernel.dynamic_shared_limit.store(dynamic_limit, std::memory_order_relaxed);
  read_parameters(binary);
  return allow_shared(binary, shared_bytes, error);
}

}  // namespace

Binary* load_binary(const std::string& name, const std::string& code, int64_t shared_bytes, int32_t device,
                    BinaryResources* resources, DriverError* error) {
  if (shared_bytes < 0) {
    error->value("loading " + name + ": shared is " + std::to_string(shared_bytes) +
                 ", expected bytes, 0 or more");
    return nullptr;
  }
  if (!check_device_image(code, name, error) || !ensure_driver(error)) return nullptr;
  auto binary = std::make_unique<Binary>();
  binary->device = device_at(device, error);
  if (binary->device == nullptr || !choose_context(&device, nullptr, &binary->context, error)) return nullptr;
  ContextGuard guard;
  if (!guard.enter(binary->context, error)) return nullptr;
  if (is_capturing(nullptr)) {
    fail(cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamIsCapturing", name, *binary->device, error);
    return nullptr;
  }
  drain_unload_queue();
  const RelaxedCapture relaxed;
  CUresult result = driver().cuModuleLoadData(&binary->module, code.c_str());
  if (result != cuda::CUDA_SUCCESS) {
    fail(result, "cuModuleLoadData", name, *binary->device, error, code);
    return nullptr;
  }
  if (find_function(binary.get(), name, shared_bytes, resources, error) && guard.leave(error))
    return binary.release();
  driver().cuModuleUnload(binary->module);
  return nullptr;
}

void register_binary(Binary* binary) {
  // There may be an unloaded one whose handle the driver has reused.
  registry()[binary->kernel.function].reset(binary);
}

Binary* find_binary(cuda::CUfunction function) {
  auto found = registry().find(function);
  return found == registry().end() ? nullptr : found->second.get();
}

BinaryHold::BinaryHold(Binary* binary) : binary_(binary) { ++binary->holds; }

BinaryHold::~BinaryHold() {
  if (--binary_->holds == 0 && binary_->is_unloaded)
    queue_unload(nullptr, binary_->module, binary_->context, binary_->kernel.name);
}

bool check_function_handle(cuda::CUfunction function, DriverError* error) {
  const auto address = reinterpret_cast<uintptr_t>(function);
  if (address >= kLeastHandle && address <= kMostHandle && address % alignof(void*) == 0) return true;
  char text[32];
  snprintf(text, sizeof(text), "%#llx", static_cast<unsigned long long>(address));
  return error->value(std::string("the function handle ") + text + " is not one that load_binary gave");
}

bool unload_binary(cuda::CUmodule module, DriverError* error) {
  bool found = false;
  for (auto& entry : registry()) {
    Binary* binary = entry.second.get();
    if (binary->module != module || binary->is_unloaded) continue;
    found = true;
    binary->is_unloaded = true;
    if (binary->holds == 0) queue_unload(nullptr, module, binary->context, binary->kernel.name);
  }
  if (found) return true;
  char text[32];
  snprintf(text, sizeof(text), "%p", static_cast<void*>(module));
  return error->value(std::string("there is no loaded module ") + text + "; was it unloaded before?");
}

bool describe_foreign(cuda::CUfunction function, Device* device, Binary* binary) {
  binary->device = device;
  LoadedKernel& kernel = binary->kernel;
  kernel.name = "a foreign kernel";
  kernel.handle = kernel.function = function;
  int32_t limit = 0;
  if (driver().cuFuncGetAttribute(&limit, cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function) !=
          0 ||
      driver().cuFuncGetAttribute(&kernel.static_shared_bytes, cuda::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                  function) != 0) {
    return false;
  }
  kernel.dynamic_shared_limit.store(limit, std::memory_order_relaxed);
  read_parameters(binary);
  return true;
}

}  // namespace weft
