// SPDX-License-Identifier: Apache-2.0
//
// Device memory is host memory with a list of what belongs to which device;
// tensor maps are recorded.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

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

bool is_pinned(CUdeviceptr address) {
  auto next = state().pinned.upper_bound(address);
  return next != state().pinned.begin() && address < std::prev(next)->first + std::prev(next)->second;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// Done when it is given, or a step of the graph that the stream is captured into.
CUresult work_on(CUstream stream, std::function<void()> work) {
  CUresult result = 0;
  if (context_of(stream, &result) == nullptr) return result;
  Stream* captured = as_stream(stream);
  if (captured == nullptr || captured->capture == nullptr) {
    work();
    return 0;
  }
  Node node;
  node.kind = Node::kWork;
  node.work = std::move(work);
  captured->capture->nodes.push_back(node);
  return 0;
}

template <typename Value>
CUresult set_memory(CUdeviceptr target, Value value, size_t count, CUstream stream) {
  if (find(target, count * sizeof(Value)) == nullptr || target % sizeof(Value) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return work_on(stream, [=] { std::fill_n(static_cast<Value*>(pointer(target)), count, value); });
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

CUresult fake::find_global(Image* image, const char* name, CUdeviceptr* address, size_t* bytes) {
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto found = image->globals.find(name);
  if (found == image->globals.end()) return CUDA_ERROR_NOT_FOUND;
  *bytes = found->second;
  CUdeviceptr& memory = image->memory[{name, current_context()->device}];
  if (memory == 0) {
    const CUresult result = allocate(&memory, *bytes, current_context()->device);
    if (result != 0) return result;
    memset(pointer(memory), 0, *bytes);
  }
  *address = state().last_global = memory;
  return 0;
}

void fake::free_globals(Image* image) {
  for (const auto& entry : image->memory) release(entry.second);
  image->memory.clear();
}

extern "C" {

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int flags) {
  FAKE_ENTER(cuMemHostAlloc, "%zu, %u", bytes, flags);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  state().pinned[reinterpret_cast<CUdeviceptr>(*address)] = bytes;
  return call.done(0);
}

CUresult cuMemFreeHost(void* address) {
  FAKE_ENTER(cuMemFreeHost, "%p", address);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  FAKE_CHECK(state().pinned.erase(reinterpret_cast<CUdeviceptr>(address)) != 0, CUDA_ERROR_INVALID_VALUE);
  std::free(address);
  return call.done(0);
}

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

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  FAKE_ENTER(cuDeviceGetDefaultMemPool, "%d", device);
  FAKE_CHECK(device >= 0 && static_cast<size_t>(device) < state().devices.size(), CUDA_ERROR_INVALID_DEVICE);
  *pool = reinterpret_cast<CUmemoryPool>(&state().devices[static_cast<size_t>(device)]);
  return call.done(0);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int32_t attribute, void* value) {
  FAKE_ENTER(cuMemPoolGetAttribute, "%p, %d", static_cast<void*>(pool), attribute);
  FAKE_CHECK(attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CUDA_ERROR_INVALID_VALUE);
  *static_cast<uint64_t*>(value) = reinterpret_cast<Device*>(pool)->pool_threshold;
  return call.done(0);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int32_t attribute, void* value) {
  FAKE_ENTER(cuMemPoolSetAttribute, "%p, %d, %llu", static_cast<void*>(pool), attribute,
             static_cast<unsigned long long>(*static_cast<uint64_t*>(value)));
  FAKE_CHECK(attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CUDA_ERROR_INVALID_VALUE);
  reinterpret_cast<Device*>(pool)->pool_threshold = *static_cast<uint64_t*>(value);
  return call.done(0);
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  enter_queue();
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
  enter_queue();
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

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  enter_queue();
  FAKE_ENTER(cuMemcpyAsync, "%llx, %llx, %zu, %p", target, source, bytes, static_cast<void*>(stream));
  const Allocation *to = find(target, bytes), *from = find(source, bytes);
  FAKE_CHECK(to != nullptr || from != nullptr,
             CUDA_ERROR_INVALID_VALUE);  // weft copies within the host itself
  FAKE_CHECK(to == nullptr || from == nullptr || to->device == from->device, CUDA_ERROR_INVALID_VALUE);
  FAKE_CHECK(to != from || target + bytes <= source || source + bytes <= target, CUDA_ERROR_INVALID_VALUE);
  return call.done(work_on(stream, [=] { memcpy(pointer(target), pointer(source), bytes); }));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                           CUcontext source_context, size_t bytes, CUstream stream) {
  enter_queue();
  FAKE_ENTER(cuMemcpyPeerAsync, "%llx, %llx, %zu, %p", target, source, bytes, static_cast<void*>(stream));
  const Allocation *to = find(target, bytes), *from = find(source, bytes);
  FAKE_CHECK(to != nullptr && from != nullptr, CUDA_ERROR_INVALID_VALUE);
  FAKE_CHECK(reinterpret_cast<Context*>(target_context)->device == to->device &&
                 reinterpret_cast<Context*>(source_context)->device == from->device,
             CUDA_ERROR_INVALID_CONTEXT);
  return call.done(work_on(stream, [=] { memcpy(pointer(target), pointer(source), bytes); }));
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* given, CUstream stream) {
  const CUDA_MEMCPY3D copy = *given;
  enter_queue();
  FAKE_ENTER(cuMemcpy3DAsync, "width=%zu height=%zu depth=%zu pitch=%zu,%zu rows=%zu,%zu, %p",
             copy.WidthInBytes, copy.Height, copy.Depth, copy.dstPitch, copy.srcPitch, copy.dstHeight,
             copy.srcHeight, static_cast<void*>(stream));
  FAKE_CHECK(copy.dstMemoryType == CU_MEMORYTYPE_UNIFIED && copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED,
             CUDA_ERROR_INVALID_VALUE);
  FAKE_CHECK(copy.dstPitch >= copy.WidthInBytes && copy.srcPitch >= copy.WidthInBytes,
             CUDA_ERROR_INVALID_VALUE);
  FAKE_CHECK(copy.dstHeight >= copy.Height && copy.srcHeight >= copy.Height, CUDA_ERROR_INVALID_VALUE);
  auto offset = [](size_t pitch, size_t height, size_t row, size_t layer) {
    return (layer * height + row) * pitch;
  };
  auto end = [&](size_t pitch, size_t height) {
    return offset(pitch, height, copy.Height - 1, copy.Depth - 1) + copy.WidthInBytes;
  };
  const bool reaches = find(copy.dstDevice, end(copy.dstPitch, copy.dstHeight)) != nullptr;
  FAKE_CHECK(reaches || find(copy.srcDevice, end(copy.srcPitch, copy.srcHeight)) != nullptr,
             CUDA_ERROR_INVALID_VALUE);
  return call.done(work_on(stream, [=] {
    for (size_t layer = 0; layer < copy.Depth; ++layer) {
      for (size_t row = 0; row < copy.Height; ++row) {
        memcpy(pointer(copy.dstDevice + offset(copy.dstPitch, copy.dstHeight, row, layer)),
               pointer(copy.srcDevice + offset(copy.srcPitch, copy.srcHeight, row, layer)),
               copy.WidthInBytes);
      }
    }
  }));
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  enter_queue();
  FAKE_ENTER(cuMemsetD8Async, "%x, %zu, %p", value, count, static_cast<void*>(stream));
  return call.done(set_memory(target, value, count, stream));
}

CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
  enter_queue();
  FAKE_ENTER(cuMemsetD16Async, "%x, %zu, %p", value, count, static_cast<void*>(stream));
  return call.done(set_memory(target, value, count, stream));
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
  enter_queue();
  FAKE_ENTER(cuMemsetD32Async, "%x, %zu, %p", value, count, static_cast<void*>(stream));
  return call.done(set_memory(target, value, count, stream));
}

// What the program around weft does with cuMemHostRegister.
void fake_cuda_pin(unsigned long long address, unsigned long long bytes) { state().pinned[address] = bytes; }

CUresult cuPointerGetAttribute(void* value, int32_t attribute, CUdeviceptr address) {
  FAKE_ENTER(cuPointerGetAttribute, "%d, %llx", attribute, address);
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && is_pinned(address)) {
    *static_cast<uint32_t*>(value) = CU_MEMORYTYPE_HOST;
    return call.done(0);
  }
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
// words. Beside data type and rank is the bit that is wrong for small tensors.
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
  map->opaque[1] = static_cast<uint64_t>(data_type) << 32 | 1 << 21 | rank;
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
  map->opaque[1] = static_cast<uint64_t>(data_type) << 32 | 1 << 21 | rank;
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
