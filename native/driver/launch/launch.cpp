// SPDX-License-Identifier: Apache-2.0
//
// One launch, checked before its numbers are narrowed to the driver's 32 bits.
#include "driver/launch/launch.h"

#include <cstring>
#include <utility>

#include "driver/launch/launch_diagnosis.h"
#include "driver/launch/launch_history.h"
#include "driver/launch/launch_scratch.h"
#include "driver/launch/queue_room.h"
#include "driver/library/driver_library.h"
#include "hints.h"
#include "runtime/interpreter.h"
#include "runtime/launch/launch_hooks.h"
#include "runtime/launch/launch_limits.h"

namespace weft {

using cuda::CUresult;

static_assert(sizeof(weft_launch_attribute) == sizeof(cuda::CUlaunchAttribute) &&
                  offsetof(weft_launch_attribute, value) == offsetof(cuda::CUlaunchAttribute, value),
              "launch attributes pass through unchanged");

namespace {

constexpr int64_t kMostDriverShared =
    2147483647;  // the driver's int; smaller limits are the driver's to check
constexpr int64_t kMostAttributes = 64;

std::string describe_triple(const int64_t* values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + ")";
}

bool check_ranges(const char* kernel, const weft_launch& launch, DriverError* error) {
  std::string misfit = launch_misfit(kernel, launch, kMostThreads, kMostDriverShared);
  if (misfit.empty() && (launch.attribute_count < 0 || launch.attribute_count > kMostAttributes)) {
    misfit = "launch of " + std::string(kernel) + ": the number of launch attributes is " +
             std::to_string(launch.attribute_count) + ", expected 0 to " + std::to_string(kMostAttributes);
  }
  if (misfit.empty()) return true;
  error->kernel = kernel;
  return error->value(std::move(misfit));
}

const weft_launch_attribute* find_attribute(const weft_launch& launch, uint32_t id) {
  for (int64_t index = 0; index < launch.attribute_count; ++index) {
    if (launch.attributes[index].id == id) return &launch.attributes[index];
  }
  return nullptr;
}

bool has_no_blocks(const weft_launch& launch) {
  return launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0;
}

}  // namespace

int64_t cluster_blocks(const weft_launch& launch, uint32_t attribute) {
  const weft_launch_attribute* found = find_attribute(launch, attribute);
  if (found == nullptr) return 0;
  uint32_t size[3];
  memcpy(size, found->value, sizeof(size));
  return static_cast<int64_t>(size[0]) * size[1] * size[2];
}

bool is_cooperative(const weft_launch& launch) {
  const weft_launch_attribute* found = find_attribute(launch, cuda::CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  int32_t value = 0;
  if (found != nullptr) memcpy(&value, found->value, sizeof(value));
  return value != 0;
}

namespace {

std::string describe_stream(const void* stream) {
  char text[32];
  snprintf(text, sizeof(text), "0x%llx",
           static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream)));
  return text;
}

}  // namespace

std::string describe_configuration(const weft_launch& launch, cuda::CUstream stream) {
  std::string text = "grid=" + describe_triple(launch.grid) + ", block=" + describe_triple(launch.block) +
                     ", shared_memory_bytes=" + std::to_string(launch.shared_memory_bytes) +
                     ", stream=" + describe_stream(stream);
  for (int64_t index = 0; index < launch.attribute_count; ++index) {
    const weft_launch_attribute& attribute = launch.attributes[index];
    int32_t first[3];
    memcpy(first, attribute.value, sizeof(first));
    if (attribute.id == cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const int64_t size[3] = {first[0], first[1], first[2]};
      text += ", cluster=" + describe_triple(size);
    } else if (attribute.id == cuda::CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      text += ", cooperative=" + std::to_string(first[0]);
    } else if (attribute.id == cuda::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      text += ", programmatic=" + std::to_string(first[0]);
    } else {
      text += ", attribute " + std::to_string(attribute.id);
    }
  }
  return text;
}

namespace {

// True if nothing needs checking or enabling first: ordinary sizes and no attributes.
inline bool is_plain(const LoadedKernel& kernel, const weft_launch& launch) {
  auto below = [](int64_t value, int64_t most) {  // 1 to most
    return static_cast<uint64_t>(value) - 1 < static_cast<uint64_t>(most);
  };
  return below(launch.grid[0], kMostGrid[0]) && below(launch.grid[1], kMostGrid[1]) &&
         below(launch.grid[2], kMostGrid[2]) && below(launch.block[0], kMostBlock[0]) &&
         below(launch.block[1], kMostBlock[1]) && below(launch.block[2], kMostBlock[2]) &&
         launch.block[0] * launch.block[1] * launch.block[2] <= kMostThreads &&
         launch.shared_memory_bytes >= 0 &&
         launch.shared_memory_bytes <= kernel.dynamic_shared_limit.load(std::memory_order_relaxed) &&
         launch.attribute_count == 0;
}

// The numbers of a checked launch, narrowed to the driver's types.
inline cuda::CUlaunchConfig make_config(const weft_launch& launch, cuda::CUstream stream) {
  cuda::CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned int>(launch.grid[0]);
  config.gridDimY = static_cast<unsigned int>(launch.grid[1]);
  config.gridDimZ = static_cast<unsigned int>(launch.grid[2]);
  config.blockDimX = static_cast<unsigned int>(launch.block[0]);
  config.blockDimY = static_cast<unsigned int>(launch.block[1]);
  config.blockDimZ = static_cast<unsigned int>(launch.block[2]);
  config.sharedMemBytes = static_cast<unsigned int>(launch.shared_memory_bytes);
  config.hStream = stream;
  // The driver takes a writable list but writes only a device-updatable node's handle.
  config.attrs =
      reinterpret_cast<cuda::CUlaunchAttribute*>(const_cast<weft_launch_attribute*>(launch.attributes));
  config.numAttrs = static_cast<unsigned int>(launch.attribute_count);
  return config;
}

// Hands the launch to the driver and remembers it.
inline CUresult submit(const LoadedKernel& kernel, const Device& device, const cuda::CUlaunchConfig& config,
                       bool is_home, void** parameters) {
  const CUresult result = queue_work(config.hStream, device.ordinal, [&] {
    return driver().cuLaunchKernelEx(&config, is_home ? kernel.function : kernel.handle, parameters, nullptr);
  });
  if (WEFT_UNLIKELY(result != cuda::CUDA_SUCCESS)) return result;
  record_launch({kernel.name,
                 config.hStream,
                 device.ordinal,
                 {config.gridDimX, config.gridDimY, config.gridDimZ},
                 {config.blockDimX, config.blockDimY, config.blockDimZ},
                 config.sharedMemBytes});
  return result;
}

}  // namespace

bool launch_kernel(LoadedKernel* kernel, const Device& device, const weft_launch& launch,
                   cuda::CUstream stream, bool is_home, void** parameters, DriverError* error) {
  if (!check_ranges(kernel->name, launch, error)) return false;
  if (has_no_blocks(launch)) return true;
  if (!allow_shared_memory(kernel, &device, launch.shared_memory_bytes, error)) return false;
  if (launch.attribute_count != 0 &&
      (cluster_blocks(launch, cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) > kPortableClusterBlocks ||
       cluster_blocks(launch, cuda::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION) >
           kPortableClusterBlocks) &&
      !allow_large_clusters(kernel, &device, error)) {
    return false;
  }
  const cuda::CUlaunchConfig config = make_config(launch, stream);
  const CUresult result = submit(*kernel, device, config, is_home, parameters);
  return result == cuda::CUDA_SUCCESS ||
         explain_failed_launch(result, *kernel, device, launch, config, error);
}

namespace {

// A launch may name another stream than its call was entered with; it must be of the same device and, with
// modules, of the same context.
bool check_stream(const weft_call_frame& frame, const LoadedProgram& program, DriverError* error) {
  auto stream = static_cast<cuda::CUstream>(frame.stream);
  cuda::CUcontext context = nullptr;
  const int32_t device = device_of_stream(stream, &context, error);
  if (device < 0) return false;
  const std::string name = describe_stream(stream);
  if (device != program.device->ordinal) {
    return error->value("stream " + name + " is on cuda:" + std::to_string(device) +
                        ", expected one of cuda:" + std::to_string(program.device->ordinal) +
                        ", where the work is");
  }
  if (program.module == nullptr || context == program.device->primary.load(std::memory_order_acquire))
    return true;
  return error->value("stream " + name + " is not of the primary context of cuda:" + std::to_string(device) +
                      ", which the context executor needs; compile with --executor library");
}

// One launch of a compiled function.
struct CudaLaunch {
  weft_call_frame* frame;
  LoadedKernel* kernel;
  const weft_launch* launch;
  void** parameters;
  const weft_scratch* scratch;
  int64_t scratch_count;
  bool is_home;  // the kernel's function is valid in the launch's context
};

WEFT_COLD bool refuse_kernel(int32_t kernel) {
  DriverError error;
  error.runtime("the image has no kernel number " + std::to_string(kernel) + "; this is a defect of weft");
  set_ffi_error(error);
  return false;
}

// What kernels have found since the last call ends this one.
WEFT_COLD bool refuse_after_finding(LoadedProgram* program) {
  const WithoutGil released;  // it waits for the device
  program->findings->raise();
  return false;
}

// A launch that names a stream of its own.
WEFT_COLD bool resolve_stream(CudaLaunch* call, const LoadedProgram& program) {
  DriverError error;
  if (!check_stream(*call->frame, program, &error)) {
    if (error.kind == ErrorKind::kValue)
      error.message = "launch of " + std::string(call->kernel->name) + ": " + error.message;
    set_ffi_error(error);
    return false;
  }
  call->is_home = program.module != nullptr;  // else it may belong to another context of the device
  return true;
}

// Finds the kernel and checks the launch's own stream. False with the FFI error set.
inline bool resolve(CudaLaunch* call, int32_t kernel) {
  const weft_call_frame* frame = call->frame;
  auto* program = static_cast<LoadedProgram*>(frame->driver_kernels);
  if (WEFT_UNLIKELY(program == nullptr || kernel < 0 || static_cast<size_t>(kernel) >= program->kernel_count))
    return refuse_kernel(kernel);
  if (WEFT_UNLIKELY(program->findings != nullptr) && program->findings->any())
    return refuse_after_finding(program);
  call->kernel = &program->kernels[kernel];
  call->is_home = frame->is_home != 0;
  if (WEFT_LIKELY(frame->stream == frame->entered_stream) || !is_stream_handle(frame->stream)) return true;
  return resolve_stream(call, *program);
}

const Device& device_of(const CudaLaunch& call) {
  return *static_cast<LoadedProgram*>(call.frame->driver_kernels)->device;
}

WEFT_COLD int32_t perform_carefully(const CudaLaunch& call) {
  DriverError error;
  auto stream = static_cast<cuda::CUstream>(call.frame->stream);
  if (launch_kernel(call.kernel, device_of(call), *call.launch, stream, call.is_home, call.parameters,
                    &error))
    return 0;
  return set_ffi_error(error);
}

// 0, or -1 with the FFI error set.
inline int32_t perform(const CudaLaunch* call) {
  const weft_launch& launch = *call->launch;
  if (WEFT_UNLIKELY(!is_plain(*call->kernel, launch))) return perform_carefully(*call);
  auto stream = static_cast<cuda::CUstream>(call->frame->stream);
  const cuda::CUlaunchConfig config = make_config(launch, stream);
  const Device& device = device_of(*call);
  const CUresult result = submit(*call->kernel, device, config, call->is_home, call->parameters);
  if (WEFT_LIKELY(result == cuda::CUDA_SUCCESS)) return 0;
  DriverError error;
  explain_failed_launch(result, *call->kernel, device, launch, config, &error);
  return set_ffi_error(error);
}

int32_t perform_with_scratch(const CudaLaunch* call) {
  LaunchScratch scratch(
      {call->kernel->name, device_of(*call).ordinal, static_cast<cuda::CUstream>(call->frame->stream)});
  for (int64_t index = 0; index < call->scratch_count; ++index) {
    const weft_scratch& wanted = call->scratch[index];
    void* slot = nullptr;
    if (scratch.take(wanted, *call->launch, &slot) != 0) return -1;
    memcpy(call->parameters[wanted.parameter], &slot, sizeof(slot));
  }
  if (perform(call) != 0) return -1;
  DriverError error;
  return scratch.give_back(&error) ? 0 : set_ffi_error(error);
}

WEFT_COLD int32_t perform_between_hooks(const CudaLaunch* call) {
  const LaunchFacts facts{call->kernel->name, kDLCUDA, device_of(*call).ordinal, call->frame->stream,
                          call->launch};
  auto run = [](void* data) {
    const auto* launch = static_cast<const CudaLaunch*>(data);
    return launch->scratch_count == 0 ? perform(launch) : perform_with_scratch(launch);
  };
  return launch_between_hooks(facts, run, const_cast<CudaLaunch*>(call));
}

}  // namespace

int32_t launch_device(weft_call_frame* frame, int32_t kernel, const weft_launch* launch, void** parameters) {
  CudaLaunch call{frame, nullptr, launch, parameters, nullptr, 0, false};
  if (!resolve(&call, kernel)) return -1;
  return WEFT_UNLIKELY(has_launch_hooks()) ? perform_between_hooks(&call) : perform(&call);
}

int32_t launch_device_scratch(weft_call_frame* frame, int32_t kernel, const weft_launch* launch,
                              void** parameters, const weft_scratch* scratch, int64_t scratch_count) {
  CudaLaunch call{frame, nullptr, launch, parameters, scratch, scratch_count, false};
  if (!resolve(&call, kernel)) return -1;
  return WEFT_UNLIKELY(has_launch_hooks()) ? perform_between_hooks(&call) : perform_with_scratch(&call);
}

}  // namespace weft
