// SPDX-License-Identifier: Apache-2.0
//
// TMA descriptors, encoded by the driver.
#include "driver/launch/encode_map.h"

#include "driver/library/driver_library.h"

namespace weft {
namespace {

// Drivers up to that of CUDA 13.1 encode a tensor of less than 128 KiB that is not dense so that copies on
// Blackwell end, at times, in an illegal access. Without this bit they do not; other GPUs copy the same with
// and without it. CUTLASS and Triton clear it by the same rule.
constexpr int kLastVersionToFix = 13010;
constexpr uint64_t kReachToFix = 128 << 10;
constexpr int kWordToFix = 1, kBitToFix = 21;

// Bytes of an element, by CUtensorMapDataType; of those below a byte, in part, a whole one.
constexpr uint64_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};

// Bytes from a tensor's first element to the end of its last one.
uint64_t reach_of(const MapDescription& map) {
  constexpr int kTypes = sizeof(kElementBytes) / sizeof(*kElementBytes);
  const uint64_t element = map.data_type < kTypes ? kElementBytes[map.data_type] : 1;
  uint64_t reach = map.dims[0] * element;
  for (int axis = 1; axis < map.rank; ++axis) reach += (map.dims[axis] - 1) * map.byte_strides[axis - 1];
  return reach;
}

}  // namespace

bool encode_map(const MapDescription& wanted, cuda::CUtensorMap* map, DriverError* error) {
  if (wanted.address == 0)
    return error->value("the address is 0, expected that of a tensor in device memory");
  if (!ensure_driver(error)) return false;
  cuda::CUtensorMap encoded;
  auto* address = reinterpret_cast<void*>(wanted.address);
  const auto rank = static_cast<uint32_t>(wanted.rank);
  const cuda::CUresult result =
      wanted.is_im2col != 0
          ? driver().cuTensorMapEncodeIm2col(
                &encoded, wanted.data_type, rank, address, wanted.dims, wanted.byte_strides, wanted.lower,
                wanted.upper, wanted.channels_per_pixel, wanted.pixels_per_column, wanted.element_strides,
                wanted.interleave, wanted.swizzle, wanted.l2_promotion, wanted.fill)
          : driver().cuTensorMapEncodeTiled(
                &encoded, wanted.data_type, rank, address, wanted.dims, wanted.byte_strides, wanted.box,
                wanted.element_strides, wanted.interleave, wanted.swizzle, wanted.l2_promotion, wanted.fill);
  if (result != cuda::CUDA_SUCCESS) {
    return error->cuda(result, wanted.is_im2col != 0 ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled",
                       "filling a TMA descriptor", "the driver accepts no descriptor with these numbers");
  }
  if (driver_version() <= kLastVersionToFix && reach_of(wanted) < kReachToFix)
    encoded.opaque[kWordToFix] &= ~(uint64_t{1} << kBitToFix);
  *map = encoded;
  return true;
}

}  // namespace weft
