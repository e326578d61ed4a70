// SPDX-License-Identifier: Apache-2.0
//
// One function per limit; the first exceeded limit is reported. They run only after a failed launch.
#include "driver/launch/launch_diagnosis.h"

#include "driver/launch/launch_history.h"
#include "driver/library/driver_library.h"

namespace weft {

using cuda::CUresult;

namespace {

struct Failure {
  CUresult result;
  const LoadedKernel& kernel;
  const Device& device;
  const weft_launch& launch;
  const cuda::CUlaunchConfig& config;

  int64_t threads() const { return launch.block[0] * launch.block[1] * launch.block[2]; }
  int32_t kernel_value(int32_t attribute) const { return kernel_attribute(kernel, device, attribute, -1); }
  int32_t device_value(int32_t attribute) const {
    int value = -1;
    return driver().cuDeviceGetAttribute(&value, attribute, device.handle) == cuda::CUDA_SUCCESS ? value : -1;
  }
};

std::string number(int64_t value) { return std::to_string(value); }

std::string explain_threads(const Failure& failure) {
  const int32_t allowed = failure.kernel_value(cuda::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (allowed < 0 || failure.threads() <= allowed) return {};
  const int32_t registers = failure.kernel_value(cuda::CU_FUNC_ATTRIBUTE_NUM_REGS);
  const int32_t available = failure.device_value(cuda::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  std::string text =
      "the block has " + number(failure.threads()) + " threads, this kernel allows " + number(allowed);
  if (registers > 0 && available > 0 && registers * failure.threads() > available) {
    text += ", because each uses " + number(registers) + " registers and a block has " + number(available);
  }
  return text + "; launch at most " + number(allowed) +
         " threads, or compile it with max_threads=" + number(failure.threads());
}

std::string explain_shared_memory(const Failure& failure) {
  const int64_t wanted = failure.launch.shared_memory_bytes + failure.kernel.static_shared_bytes;
  if (wanted <= failure.device.shared_bytes_opt_in) return {};
  return "the block needs " + number(wanted) + " bytes of shared memory (" +
         number(failure.kernel.static_shared_bytes) + " static, " +
         number(failure.launch.shared_memory_bytes) + " dynamic), the device allows " +
         number(failure.device.shared_bytes_opt_in);
}

std::string explain_cluster(const Failure& failure) {
  const int64_t blocks = cluster_blocks(failure.launch, cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  if (blocks <= 1) return {};
  if (failure.device.major < 9) {
    return "clusters need compute capability 9.0, the device is " + failure.device.architecture();
  }
  for (int64_t index = 0; index < failure.launch.attribute_count; ++index) {
    const weft_launch_attribute& attribute = failure.launch.attributes[index];
    if (attribute.id != cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto* size = reinterpret_cast<const uint32_t*>(attribute.value);
    for (int axis = 0; axis < 3; ++axis) {
      if (size[axis] == 0 || failure.launch.grid[axis] % size[axis] != 0) {
        return std::string("grid.") + "xyz"[axis] + " is " + number(failure.launch.grid[axis]) +
               ", expected a multiple of the cluster's " + number(size[axis]);
      }
    }
  }
  int most = 0;
  if (driver().cuOccupancyMaxPotentialClusterSize(&most, failure.kernel.function, &failure.config) ==
          cuda::CUDA_SUCCESS &&
      blocks > most) {
    return "the cluster has " + number(blocks) + " blocks, the device allows " + number(most) +
           " of this kernel with this block and shared memory";
  }
  return {};
}

std::string explain_cooperative(const Failure& failure) {
  if (!is_cooperative(failure.launch)) return {};
  int per_multiprocessor = -1;
  CUresult result = driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &per_multiprocessor, failure.kernel.function, static_cast<int>(failure.threads()),
      static_cast<size_t>(failure.launch.shared_memory_bytes), 0);
  if (result != cuda::CUDA_SUCCESS) return {};
  const int64_t allowed = static_cast<int64_t>(per_multiprocessor) * failure.device.multiprocessors;
  const int64_t blocks = failure.launch.grid[0] * failure.launch.grid[1] * failure.launch.grid[2];
  if (blocks <= allowed) return {};
  return "a cooperative grid must be resident as a whole: it has " + number(blocks) +
         " blocks, the device holds " + number(allowed) + " (" + number(per_multiprocessor) + " on each of " +
         number(failure.device.multiprocessors) + " multiprocessors)";
}

std::string explain_grid(const Failure& failure) {
  constexpr int32_t kLimits[3] = {cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                  cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                  cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  for (int axis = 0; axis < 3; ++axis) {
    const int32_t most = failure.device_value(kLimits[axis]);
    if (most > 0 && failure.launch.grid[axis] > most) {
      return std::string("grid.") + "xyz"[axis] + " is " + number(failure.launch.grid[axis]) +
             ", the device allows " + number(most);
    }
  }
  return {};
}

std::string explain_capture(const Failure& failure) {
  if (failure.result != cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
      failure.result != cuda::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED &&
      failure.result != cuda::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return {};
  }
  return "a stream is being captured into a graph; call preload(" + number(failure.device.ordinal) +
         ") before the capture and launch on the captured stream";
}

std::string explain_handle(const Failure& failure) {
  if (failure.result != cuda::CUDA_ERROR_INVALID_HANDLE &&
      failure.result != cuda::CUDA_ERROR_INVALID_CONTEXT) {
    return {};
  }
  return "the stream or the kernel does not exist any more, or they are not of the same context";
}

using Explain = std::string (*)(const Failure& failure);
constexpr Explain kExplanations[] = {explain_capture, explain_threads,     explain_shared_memory,
                                     explain_cluster, explain_cooperative, explain_grid,
                                     explain_handle};

}  // namespace

std::string explain_asynchronous_error(CUresult result) {
  if (!is_sticky(result)) return {};
  std::string text =
      "a kernel that was launched earlier failed; the context cannot be used any more and the process must "
      "be "
      "restarted";
  if (result == cuda::CUDA_ERROR_ASSERT) text = "an assert in a kernel failed; " + text;
  const std::string launches = describe_last_launches();
  return launches.empty() ? text : text + "\n  the last launches, newest first:\n" + launches;
}

bool explain_failed_launch(CUresult result, const LoadedKernel& kernel, const Device& device,
                           const weft_launch& launch, const cuda::CUlaunchConfig& config,
                           DriverError* error) {
  error->kernel = kernel.name;
  error->configuration = describe_configuration(launch, config.hStream);
  std::string explanation = explain_asynchronous_error(result);
  const Failure failure{result, kernel, device, launch, config};
  for (const Explain& explain : kExplanations) {
    if (!explanation.empty()) break;
    explanation = explain(failure);
  }
  return error->cuda(result, "cuLaunchKernelEx",
                     "launching " + std::string(kernel.name) + " on " + device.text(), explanation);
}

}  // namespace weft
