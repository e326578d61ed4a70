// SPDX-License-Identifier: Apache-2.0
//
// Device memory is host memory with a list of what belongs to which device;
// tensor maps are recorded.
#include <cstdlib>
#include <cstring>

#include "fake_state.h"

using namespace fake;
using namespace weft::cuda;

namespace {

CUresult allocate(CUdeviceptr* address, size_t bytes, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t used = 0;
  for (const auto& entry : state().allocations)
    used += entry.second.device == device ? entry.second.bytes : 0;
  if (bytes > state().devices[static_cast<size_t>(device)].memory - used) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  state().allocations[*address] = {bytes, device};
  state().last_allocation = *address;
  return 0;
}

CUresult release(CUdeviceptr address) {
  if (address == 0) return 0;
  if (state().allocations.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void*>(address));
  return 0;
}

// The allocation that holds `bytes` at the address, or NULL.
const Allocation* find(CUdeviceptr address, size_t bytes) {
  auto next = state().allocations.upper_bound(address);
  if (next == state().allocations.begin()) return nullptr;
  auto found = std::prev(next);
  return address + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

// What the documentation of cuTensorMapEncodeTiled asks for, as far as both
// encoders share it.
bool is_valid_map(CUtensorMap* map, uint32_t rank, uint32_t least_rank, void* address, const uint64_t* dims,
                  const uint64_t* strides, const uint32_t* element_strides) {
  if (map == nullptr || rank < least_rank || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 != 0)
    return false;
  for (uint32_t index = 0; index < rank; ++index) {
    if (dims[index] == 0 || dims[index] > (uint64_t{1} << 32)) return false;
    if (index + 1 < rank && (strides[index] % 16 != 0 || strides[index] >= uint64_t{1} << 40)) return false;
    if (element_strides[index] == 0 || element_strides[index] > 8) return false;
  }
  return true;
}

}  // namespace

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  FAKE_ENTER(cuMemAlloc, "%zu", bytes);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return call.done(allocate(address, bytes, current_context()->device));
}

CUresult cuMemFree(CUdeviceptr address) {
  FAKE_ENTER(cuMemFree, "%llx", address);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return call.done(release(address));
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  FAKE_ENTER(cuMemAllocAsync, "%zu, %p", bytes, static_cast<void*>(stream));
  CUresult result = 0;
  Context* context = context_of(stream, &result);
  FAKE_CHECK(context != nullptr, result);
  result = allocate(address, bytes, context->device);
  Stream* captured = as_stream(stream);
  if (result == 0 && captured != nullptr && captured->capture != nullptr) {
    Node node;
    node.kind = Node::kAllocate;
    node.memory = {reinterpret_cast<void*>(*address),
                   [](void* memory) { release(reinterpret_cast<CUdeviceptr>(memory)); }};
    captured->capture->nodes.push_back(node);
  }
  return call.done(result);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  FAKE_ENTER(cuMemFreeAsync, "%llx, %p", address, static_cast<void*>(stream));
  CUresult result = 0;
  FAKE_CHECK(context_of(stream, &result) != nullptr, result);
  Stream* captured = as_stream(stream);
  if (captured == nullptr || captured->capture == nullptr) return call.done(release(address));
  std::vector<Node>& nodes = captured->capture->nodes;
  for (const Node& allocation : nodes) {
    if (allocation.memory.get() != reinterpret_cast<void*>(address)) continue;
    Node node;
    node.kind = Node::kFree;
    node.memory = allocation.memory;
    nodes.push_back(node);
    return call.done(0);
  }
  return call.done(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  FAKE_ENTER(cuMemGetInfo, "%s", "");
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  const int device = current_context()->device;
  *total_bytes = state().devices[static_cast<size_t>(device)].memory;
  *free_bytes = *total_bytes;
  for (const auto& entry : state().allocations)
    *free_bytes -= entry.second.device == device ? entry.second.bytes : 0;
  return call.done(0);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
  FAKE_ENTER(cuMemcpyHtoDAsync, "%llx, %zu, %p", target, bytes, static_cast<void*>(stream));
  CUresult result = 0;
  FAKE_CHECK(context_of(stream, &result) != nullptr, result);
  FAKE_CHECK(find(target, bytes) != nullptr, CUDA_ERROR_INVALID_VALUE);
  memcpy(reinterpret_cast<void*>(target), source, bytes);
  return call.done(0);
}

CUresult cuMemcpyDtoHAsync(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
  FAKE_ENTER(cuMemcpyDtoHAsync, "%llx, %zu, %p", source, bytes, static_cast<void*>(stream));
  CUresult result = 0;
  FAKE_CHECK(context_of(stream, &result) != nullptr, result);
  FAKE_CHECK(find(source, bytes) != nullptr, CUDA_ERROR_INVALID_VALUE);
  memcpy(target, reinterpret_cast<const void*>(source), bytes);
  return call.done(0);
}

CUresult cuPointerGetAttribute(void* value, int32_t attribute, CUdeviceptr address) {
  FAKE_ENTER(cuPointerGetAttribute, "%d, %llx", attribute, address);
  const Allocation* found = find(address, 0);
  FAKE_CHECK(found != nullptr, CUDA_ERROR_INVALID_VALUE);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<uint32_t*>(value) = CU_MEMORYTYPE_DEVICE;
      return call.done(0);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return call.done(0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = found->device;
      return call.done(0);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<uint32_t*>(value) = 0;
      return call.done(0);
    default:
      return call.done(CUDA_ERROR_INVALID_VALUE);
  }
}

// The descriptor holds what was asked for, so that a test can read it: a mark,
// data type, rank, address, dims, then box and the rest folded into the last
// words.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, int32_t data_type, uint32_t rank, void* address,
                                const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                                const uint32_t* element_strides, int32_t interleave, int32_t swizzle,
                                int32_t l2_promotion, int32_t fill) {
  FAKE_ENTER(cuTensorMapEncodeTiled, "type=%d rank=%u interleave=%d swizzle=%d l2=%d fill=%d", data_type,
             rank, interleave, swizzle, l2_promotion, fill);
  FAKE_CHECK(is_valid_map(map, rank, 1, address, dims, strides, element_strides), CUDA_ERROR_INVALID_VALUE);
  uint64_t boxes = 0;
  for (uint32_t index = 0; index < rank; ++index) {
    FAKE_CHECK(box[index] >= 1 && box[index] <= 256, CUDA_ERROR_INVALID_VALUE);
    boxes = boxes << 9 | box[index];
  }
  memset(map, 0, sizeof(*map));
  map->opaque[0] = 0x7469;
  map->opaque[1] = static_cast<uint64_t>(data_type) << 32 | rank;
  map->opaque[2] = reinterpret_cast<uint64_t>(address);
  for (uint32_t index = 0; index < rank; ++index) map->opaque[3 + index] = dims[index];
  for (uint32_t index = 0; index + 1 < rank; ++index) map->opaque[8 + index] = strides[index];
  map->opaque[12] = boxes;
  map->opaque[13] = static_cast<uint64_t>(interleave) | static_cast<uint64_t>(swizzle) << 8 |
                    static_cast<uint64_t>(l2_promotion) << 16 | static_cast<uint64_t>(fill) << 24;
  for (uint32_t index = 0; index < rank; ++index)
    map->opaque[14] = map->opaque[14] << 4 | element_strides[index];
  return call.done(0);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, int32_t data_type, uint32_t rank, void* address,
                                 const uint64_t* dims, const uint64_t* strides, const int* lower,
                                 const int* upper, uint32_t channels, uint32_t pixels,
                                 const uint32_t* element_strides, int32_t interleave, int32_t swizzle,
                                 int32_t l2_promotion, int32_t fill) {
  FAKE_ENTER(cuTensorMapEncodeIm2col,
             "type=%d rank=%u channels=%u pixels=%u interleave=%d swizzle=%d "
             "l2=%d fill=%d",
             data_type, rank, channels, pixels, interleave, swizzle, l2_promotion, fill);
  FAKE_CHECK(is_valid_map(map, rank, 3, address, dims, strides, element_strides), CUDA_ERROR_INVALID_VALUE);
  FAKE_CHECK(channels >= 1 && channels <= 256 && pixels >= 1 && pixels <= 1024, CUDA_ERROR_INVALID_VALUE);
  memset(map, 0, sizeof(*map));
  map->opaque[0] = 0x696d;
  map->opaque[1] = static_cast<uint64_t>(data_type) << 32 | rank;
  map->opaque[2] = reinterpret_cast<uint64_t>(address);
  for (uint32_t index = 0; index < rank; ++index) map->opaque[3 + index] = dims[index];
  for (uint32_t index = 0; index + 2 < rank; ++index) {
    map->opaque[8 + index] = static_cast<uint64_t>(static_cast<uint32_t>(lower[index])) << 32 |
                             static_cast<uint32_t>(upper[index]);
  }
  map->opaque[12] = uint64_t{channels} << 32 | pixels;
  return call.done(0);
}

}  // extern "C"
