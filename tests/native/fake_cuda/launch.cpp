// SPDX-License-Identifier: Apache-2.0
//
// Launching: everything the driver would refuse is refused, parameters are read
// as the cubin lays them out, and the kernel's CPU build runs in place of
// device code.
#include <cstdlib>
#include <cstring>

#include "fake_state.h"

using namespace fake;
using namespace weft::cuda;

namespace {

constexpr uint32_t kLastAttribute = 18;
constexpr int kPortableCluster = 8;
constexpr int kLargestCluster = 16;

// Bytes of each attribute's value; the rest of its 64 must be zero. By id; 0:
// an id that does not exist.
constexpr uint32_t kValueBytes[kLastAttribute + 1] = {64, 32, 4,  4,  12, 4, 4, 16, 4, 2,
                                                      4,  12, 12, 16, 4,  0, 4, 4,  4};

struct Checked {
  const CUlaunchConfig& config;
  Function* function;
  const fake::Device& device;

  int limit(int32_t attribute, int otherwise) const {
    const auto& changed = function->kernel == nullptr
                              ? function->attributes
                              : function->kernel->attributes[function->context->device];
    auto found = changed.find(attribute);
    return found == changed.end() ? otherwise : found->second;
  }
};

CUresult check_cluster(const Checked& launch, const uint32_t* size) {
  const uint32_t grid[3] = {launch.config.gridDimX, launch.config.gridDimY, launch.config.gridDimZ};
  uint64_t blocks = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (size[axis] == 0 || grid[axis] % size[axis] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    blocks *= size[axis];
  }
  if (launch.device.major < 9) return blocks == 1 ? 0 : CUDA_ERROR_INVALID_CLUSTER_SIZE;
  const bool allowed = launch.limit(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0) != 0;
  return blocks <= static_cast<uint64_t>(allowed ? kLargestCluster : kPortableCluster)
             ? 0
             : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

int resident_blocks(const KernelInfo& info, int threads, int64_t shared) {
  int blocks = 2048 / threads;
  if (info.registers > 0 && 65536 / (info.registers * threads) < blocks)
    blocks = 65536 / (info.registers * threads);
  const int64_t bytes = shared + info.static_shared + 1024;
  return bytes * blocks <= 233472 ? blocks : static_cast<int>(233472 / bytes);
}

CUresult check_attribute(const Checked& launch, const CUlaunchAttribute& attribute) {
  if (attribute.id > kLastAttribute || kValueBytes[attribute.id] == 0) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t index = kValueBytes[attribute.id]; index < 64; ++index) {
    if (attribute.value[index] != 0) return CUDA_ERROR_INVALID_VALUE;
  }
  uint32_t words[3];
  memcpy(words, attribute.value, sizeof(words));
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return check_cluster(launch, words);
  if (attribute.id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE || words[0] == 0) return 0;
  const CUlaunchConfig& config = launch.config;
  const int threads = static_cast<int>(config.blockDimX * config.blockDimY * config.blockDimZ);
  const uint64_t held =
      static_cast<uint64_t>(resident_blocks(*launch.function->info, threads, config.sharedMemBytes)) *
      static_cast<uint64_t>(launch.device.multiprocessors);
  return uint64_t{config.gridDimX} * config.gridDimY * config.gridDimZ <= held
             ? 0
             : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult check_launch(const Checked& launch) {
  const CUlaunchConfig& config = launch.config;
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0 || config.gridDimX > 2147483647u ||
      config.gridDimY > 65535 || config.gridDimZ > 65535) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  if (threads == 0 || threads > static_cast<uint64_t>(launch.function->info->max_threads)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads * static_cast<uint64_t>(launch.function->info->registers) > 65536) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  const int shared = launch.limit(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  49152 - launch.function->info->static_shared);
  if (config.sharedMemBytes > static_cast<uint32_t>(shared)) return CUDA_ERROR_INVALID_VALUE;
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned index = 0; index < config.numAttrs; ++index) {
    CUresult result = check_attribute(launch, config.attrs[index]);
    if (result != 0) return result;
  }
  return 0;
}

std::string describe(const CUlaunchConfig& config, const std::vector<std::string>& parameters,
                     const char* name) {
  char text[256];
  snprintf(text, sizeof(text), "%s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p attributes=[", name,
           config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY,
           config.blockDimZ, config.sharedMemBytes, static_cast<void*>(config.hStream));
  std::string result = text;
  for (unsigned index = 0; index < config.numAttrs; ++index) {
    uint32_t words[3];
    memcpy(words, config.attrs[index].value, sizeof(words));
    snprintf(text, sizeof(text), "%s%u:%u,%u,%u", index == 0 ? "" : " ", config.attrs[index].id, words[0],
             words[1], words[2]);
    result += text;
  }
  result += "] parameters=[";
  for (size_t index = 0; index < parameters.size(); ++index) {
    if (index != 0) result += " ";
    for (unsigned char byte : parameters[index]) {
      snprintf(text, sizeof(text), "%02x", byte);
      result += text;
    }
  }
  return result + "]";
}

}  // namespace

namespace fake {

namespace {

// The CPU engine's scratch for all blocks that run together: a grid with barriers is one call.
int64_t scratch_of(const CpuKernel& kernel, const weft_cpu_launch& launch) {
  if (kernel.scratch_bytes == nullptr) return launch.shared_memory_bytes;
  weft_launch asked{};
  for (int axis = 0; axis < 3; ++axis) {
    asked.grid[axis] = launch.grid[axis];
    asked.block[axis] = launch.block[axis];
  }
  asked.shared_memory_bytes = launch.shared_memory_bytes;
  asked.kernel_name = launch.kernel_name;
  return kernel.scratch_bytes(kernel.table, &asked);
}

// The CPU's form of a map that this fake encoded (memory.cpp): its dimensions are the other way round.
std::string map_for_cpu(const std::string& encoded) {
  CUtensorMap map;
  memcpy(&map, encoded.data(), sizeof(map));
  weft_cpu_tensor_map found{};
  found.rank = static_cast<int32_t>(map.opaque[1] & 0xffffffff);
  found.data_type = static_cast<int32_t>(map.opaque[1] >> 32);
  constexpr int32_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  found.element_bytes = kBytes[found.data_type];
  found.address = reinterpret_cast<char*>(map.opaque[2]);
  found.fill = static_cast<int32_t>(map.opaque[13] >> 24 & 1);
  for (int index = 0; index < found.rank; ++index) {
    const int dimension = found.rank - 1 - index;
    found.sizes[dimension] = static_cast<int64_t>(map.opaque[3 + index]);
    found.pitches[dimension] = index == 0 ? found.element_bytes : static_cast<int64_t>(map.opaque[7 + index]);
  }
  return {reinterpret_cast<const char*>(&found), sizeof(found)};
}

}  // namespace

CUresult run_kernel(const Node& node) {
  auto found = state().cpu_kernels.find(node.function->info->name);
  if (found == state().cpu_kernels.end()) return 0;
  const CpuKernel& kernel = found->second;
  // As weft lays them out for the CPU. On a GPU tensor maps are aligned as the constant bank's own addresses.
  std::string packed;
  for (const std::string& parameter : node.parameters) {
    const bool is_map = parameter.size() == WEFT_TENSOR_MAP_BYTES;
    const size_t alignment = is_map ? 64 : std::max(parameter.size(), size_t{1});
    packed.resize((packed.size() + alignment - 1) / alignment * alignment);
    packed += is_map ? map_for_cpu(parameter) : parameter;
  }
  const CUlaunchConfig& config = node.config;
  weft_cpu_launch launch{};
  launch.table = kernel.table;
  launch.grid[0] = static_cast<int32_t>(config.gridDimX);
  launch.grid[1] = static_cast<int32_t>(config.gridDimY);
  launch.grid[2] = static_cast<int32_t>(config.gridDimZ);
  launch.block[0] = static_cast<int32_t>(config.blockDimX);
  launch.block[1] = static_cast<int32_t>(config.blockDimY);
  launch.block[2] = static_cast<int32_t>(config.blockDimZ);
  launch.shared_memory_bytes = static_cast<int32_t>(config.sharedMemBytes);
  launch.kernel_name = node.function->info->name.c_str();
  const size_t scratch_bytes = (static_cast<size_t>(scratch_of(kernel, launch)) + 127) / 64 * 64;
  void* scratch = std::aligned_alloc(64, scratch_bytes);
  const int64_t blocks = int64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const int32_t failed = kernel.run(packed.data(), &launch, 0, blocks, scratch);
  std::free(scratch);
  // As on a device: the launch succeeds, and the next caller learns that it
  // did not.
  if (failed != 0) state().poison = CUDA_ERROR_ASSERT;
  return 0;
}

}  // namespace fake

extern "C" {

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** values, void** extra) {
  enter_queue();
  CUresult result = 0;
  std::vector<std::string> parameters;
  std::string text = "?";
  Context* context = nullptr;
  Function* function = nullptr;
  {
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    context = context_of(config->hStream, &result);
    if (context != nullptr) function = function_in(handle, context, &result);
    if (function != nullptr) {
      for (size_t index = 0; index < function->info->parameters.size(); ++index) {
        if (values == nullptr || values[index] == nullptr) result = CUDA_ERROR_INVALID_VALUE;
        if (result != 0) break;
        parameters.emplace_back(static_cast<const char*>(values[index]),
                                function->info->parameters[index].bytes);
      }
      text = describe(*config, parameters, function->info->name.c_str());
    }
  }
  FAKE_ENTER(cuLaunchKernelEx, "%s", text.c_str());
  FAKE_CHECK(result == 0, result);
  FAKE_CHECK(extra == nullptr, CUDA_ERROR_INVALID_VALUE);
  result = check_launch({*config, function, state().devices[static_cast<size_t>(context->device)]});
  FAKE_CHECK(result == 0, result);
  Node node{Node::kKernel, function, *config, parameters, nullptr, nullptr};
  node.config.attrs = nullptr;
  Stream* stream = as_stream(config->hStream);
  if (stream != nullptr && stream->capture != nullptr) {
    stream->capture->nodes.push_back(node);
    return call.done(0);
  }
  return call.done(run_kernel(node));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle, int block_size,
                                                              size_t shared, unsigned int flags) {
  FAKE_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, "%p, %d, %zu, %u",
             static_cast<void*>(handle), block_size, shared, flags);
  CUresult result = 0;
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  Function* function = function_in(handle, current_context(), &result);
  FAKE_CHECK(function != nullptr, result);
  FAKE_CHECK(block_size > 0 && block_size <= 1024, CUDA_ERROR_INVALID_VALUE);
  *blocks = resident_blocks(*function->info, block_size, static_cast<int64_t>(shared));
  return call.done(0);
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
  FAKE_ENTER(cuOccupancyMaxActiveClusters, "%p", static_cast<void*>(handle));
  CUresult result = 0;
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  Function* function = function_in(handle, current_context(), &result);
  FAKE_CHECK(function != nullptr, result);
  const fake::Device& device = state().devices[static_cast<size_t>(function->context->device)];
  result = check_launch({*config, function, device});
  FAKE_CHECK(result == 0, result);
  uint32_t size[3] = {1, 1, 1};
  for (unsigned index = 0; index < config->numAttrs; ++index) {
    if (config->attrs[index].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      memcpy(size, config->attrs[index].value, sizeof(size));
    }
  }
  const int threads = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  *clusters = resident_blocks(*function->info, threads, config->sharedMemBytes) * device.multiprocessors /
              static_cast<int>(size[0] * size[1] * size[2]);
  return call.done(0);
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle, const CUlaunchConfig*) {
  FAKE_ENTER(cuOccupancyMaxPotentialClusterSize, "%p", static_cast<void*>(handle));
  CUresult result = 0;
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  Function* function = function_in(handle, current_context(), &result);
  FAKE_CHECK(function != nullptr, result);
  const fake::Device& device = state().devices[static_cast<size_t>(function->context->device)];
  const CUlaunchConfig none{};
  const bool allowed =
      Checked{none, function, device}.limit(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0) != 0;
  *size = device.major < 9 ? 1 : allowed ? kLargestCluster : kPortableCluster;
  return call.done(0);
}

}  // extern "C"
