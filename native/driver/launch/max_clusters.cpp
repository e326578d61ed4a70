// SPDX-License-Identifier: Apache-2.0
//
// The row max_clusters: a question to the driver, whose answer a loaded kernel keeps.
#include "driver/launch/launch.h"

#include <cstring>
#include <string>

#include "cpu/pool.h"
#include "driver/library/driver_library.h"
#include "runtime/launch/launch_limits.h"

namespace weft {
namespace {

// The count, or 0 with an error.
int32_t ask(const weft_call_frame& frame, const LoadedProgram& program, LoadedKernel* kernel,
            const weft_cluster_shape& shape, DriverError* error) {
  const uint32_t* const cluster = shape.cluster;
  const uint32_t blocks = cluster[0] * cluster[1] * cluster[2];
  if (!allow_shared_memory(kernel, program.device, shape.shared_memory_bytes, error)) return 0;
  if (blocks > kPortableClusterBlocks && !allow_large_clusters(kernel, program.device, error)) return 0;
  cuda::CUlaunchAttribute attribute{};
  attribute.id = cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  std::memcpy(attribute.value, cluster, sizeof shape.cluster);
  const cuda::CUlaunchConfig config{cluster[0],
                                    cluster[1],
                                    cluster[2],
                                    shape.block[0],
                                    shape.block[1],
                                    shape.block[2],
                                    static_cast<unsigned int>(shape.shared_memory_bytes),
                                    nullptr,
                                    &attribute,
                                    1};
  int count = 0;
  const cuda::CUfunction function = frame.is_home != 0 ? kernel->function : kernel->handle;
  const cuda::CUresult result = driver().cuOccupancyMaxActiveClusters(&count, function, &config);
  const std::string what = std::to_string(blocks) + " blocks of " + kernel->name;
  error->kernel = kernel->name;
  if (result != cuda::CUDA_SUCCESS) {
    error->cuda(result, "cuOccupancyMaxActiveClusters",
                "asking how many clusters of " + what + " fit on " + program.device->text());
    return 0;
  }
  if (count == 0) error->runtime("no cluster of " + what + " fits on " + program.device->text());
  return count;
}

}  // namespace

int32_t max_clusters(weft_call_frame* frame, int32_t kernel, const weft_cluster_shape* shape,
                     int32_t* count) {
  auto* program = static_cast<LoadedProgram*>(frame->driver_kernels);
  if (frame->device_type != kDLCUDA || program == nullptr) {
    *count = cpu_max_clusters();
    return 0;
  }
  LoadedKernel& own = program->kernels[kernel];
  *count = own.max_clusters.load(std::memory_order_relaxed);
  if (*count != 0) return 0;
  DriverError error;
  *count = ask(*frame, *program, &own, *shape, &error);
  if (*count == 0) return set_ffi_error(error);
  own.max_clusters.store(*count, std::memory_order_relaxed);
  return 0;
}

}  // namespace weft
