// SPDX-License-Identifier: Apache-2.0
//
// The map of a tensor that a host function has: checked, then the driver's 128 bytes, encoded again only if
// something differs from this thread's last map of the site, or the CPU's.
#include "driver/launch/make_tensor_map.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "driver/launch/encode_map.h"
#include "runtime/failure.h"

namespace weft {
namespace {

constexpr int64_t kMultiple = 16;  // bytes, of the address and of pitches
constexpr int64_t kMostSize = int64_t{1} << 32;
constexpr int64_t kMostPitch = int64_t{1} << 40;

int32_t refuse(const weft_tensor_map_site& site, const std::string& sentence) {
  return raise_error("ValueError", std::string(site.place) + ": " + site.tensor + sentence);
}

int32_t refuse_stride(const weft_tensor_map_site& site, int dimension, int64_t stride, const char* expected) {
  std::string text = ".strides[" + std::to_string(dimension) + "] is " + std::to_string(stride) + " elements";
  int64_t bytes;
  if (dimension + 1 < site.rank && !__builtin_mul_overflow(stride, int64_t{site.element_bytes}, &bytes))
    text += ", " + std::to_string(bytes) + " bytes";
  return refuse(site, text + "; expected " + expected);
}

// Checks the numbers and fills the CPU's map, which has everything. Where a dimension has one element, its
// stride is never used: any is right.
int32_t describe(const weft_tensor_map_site& site, const void* address, const int64_t* sizes,
                 const int64_t* strides, weft_cpu_tensor_map* map, bool* is_empty) {
  map->address = static_cast<char*>(const_cast<void*>(address));
  map->rank = site.rank;
  map->data_type = site.data_type;
  map->element_bytes = site.element_bytes;
  map->fill = site.fill;
  map->is_im2col = static_cast<int8_t>(site.is_im2col);
  for (int spatial = 0; site.is_im2col != 0 && spatial < WEFT_TENSOR_MAP_SPATIAL; ++spatial) {
    map->lower[spatial] = static_cast<int16_t>(site.lower[spatial]);
    map->upper[spatial] = static_cast<int16_t>(site.upper[spatial]);
    map->steps[spatial] = static_cast<int8_t>(site.steps[spatial]);
  }
  int64_t extent = site.element_bytes;  // of all dimensions further inside
  for (int dimension = site.rank - 1; dimension >= 0; --dimension) {
    const int64_t size = sizes[dimension];
    const int64_t stride = strides[dimension];
    const bool is_last = dimension + 1 == site.rank;
    *is_empty |= size == 0;
    if (size > kMostSize) {
      return refuse(site, ".shape[" + std::to_string(dimension) + "] is " + std::to_string(size) +
                              "; a tensor map has at most 2^32 elements along a dimension");
    }
    if (site.is_im2col != 0 && dimension > 0 && !is_last) {
      const int spatial = dimension - 1;
      if (size != 0 && size + site.upper[spatial] - site.lower[spatial] < 1) {
        return refuse(site, ".shape[" + std::to_string(dimension) + "] is " + std::to_string(size) +
                                "; the kernel reaches beyond both ends of the image and its padding");
      }
    }
    if (is_last && size > 1 && stride != 1) return refuse_stride(site, dimension, stride, "1");
    int64_t pitch = is_last ? site.element_bytes : (extent + kMultiple - 1) / kMultiple * kMultiple;
    if (!is_last && size > 1) {
      const bool overflows = __builtin_mul_overflow(stride, int64_t{site.element_bytes}, &pitch);
      if (overflows || pitch < 0 || pitch >= kMostPitch)
        return refuse_stride(site, dimension, stride, "0 or more, and less than 2^40 bytes");
      if (pitch % kMultiple != 0) {
        return refuse_stride(site, dimension, stride,
                             "a multiple of 16 bytes, which TMA needs; pad the tensor's rows");
      }
    }
    map->sizes[dimension] = size;
    map->pitches[dimension] = pitch;
    if (pitch != 0)
      extent = size <= 0 ? pitch : (size >= kMostPitch / pitch ? kMostPitch - kMultiple : pitch * size);
  }
  const auto bits = reinterpret_cast<uint64_t>(address);
  if (!*is_empty && bits % kMultiple != 0) {
    char text[32];
    snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(bits));
    return refuse(site, std::string(" is at ") + text +
                            "; expected an address that is a multiple of 16 bytes, which TMA needs");
  }
  return 0;
}

MapDescription described(const weft_tensor_map_site& site, const weft_cpu_tensor_map& map) {
  MapDescription wanted{};
  wanted.address = reinterpret_cast<uint64_t>(map.address);
  wanted.data_type = site.data_type;
  wanted.rank = site.rank;
  wanted.swizzle = site.swizzle;
  wanted.l2_promotion = site.l2_promotion;
  wanted.fill = site.fill;
  for (int index = 0; index < site.rank; ++index) {
    const int dimension = site.rank - 1 - index;
    wanted.dims[index] = static_cast<uint64_t>(map.sizes[dimension]);
    if (index != 0) wanted.byte_strides[index - 1] = static_cast<uint64_t>(map.pitches[dimension]);
    wanted.element_strides[index] = 1;
    if (site.is_im2col == 0) wanted.box[index] = static_cast<uint32_t>(site.box[dimension]);
  }
  if (site.is_im2col == 0) return wanted;
  wanted.is_im2col = 1;
  wanted.pixels_per_column = static_cast<uint32_t>(site.box[0]);
  wanted.channels_per_pixel = static_cast<uint32_t>(site.box[1]);
  const int spatial = site.rank - 2;
  for (int index = 0; index < spatial; ++index) {
    const int dimension = spatial - 1 - index;
    wanted.lower[index] = site.lower[dimension];
    wanted.upper[index] = site.upper[dimension];
    wanted.element_strides[1 + index] = static_cast<uint32_t>(site.steps[dimension]);
  }
  return wanted;
}

// The last maps of this thread, found by their site. A site is only where to look: all of the description is
// compared, so an image that was unloaded leaves nothing wrong behind.
struct Kept {
  MapDescription described;
  cuda::CUtensorMap map;
};
using KeptMaps = std::array<Kept, 16>;
thread_local std::unique_ptr<KeptMaps>
    t_kept;  // on the heap: a library has little room for thread-local memory

}  // namespace

int32_t make_tensor_map(weft_call_frame* frame, const weft_tensor_map_site* site, const void* address,
                        const int64_t* sizes, const int64_t* strides, void* map) {
  try {
    weft_cpu_tensor_map own{};
    bool is_empty = false;
    if (describe(*site, address, sizes, strides, &own, &is_empty) != 0) return -1;
    if (frame->device_type == kDLCPU) {
      own.elements_found = is_empty ? 0 : 1;
      memcpy(map, &own, sizeof(own));
      return 0;
    }
    if (is_empty) {
      memset(map, 0, WEFT_TENSOR_MAP_BYTES);  // the driver encodes none; nothing can be copied with it
      return 0;
    }
    const MapDescription wanted = described(*site, own);
    if (t_kept == nullptr) t_kept = std::make_unique<KeptMaps>();
    Kept& kept = (*t_kept)[reinterpret_cast<uintptr_t>(site) / sizeof(*site) % t_kept->size()];
    if (memcmp(&kept.described, &wanted, sizeof(wanted)) != 0) {
      DriverError error;
      if (!encode_map(wanted, &kept.map, &error)) return set_ffi_error(error);
      kept.described = wanted;
    }
    memcpy(map, &kept.map, sizeof(kept.map));
    return 0;
  } catch (const std::bad_alloc&) {
    return raise_error("MemoryError", "no memory to describe an error");
  }
}

}  // namespace weft
