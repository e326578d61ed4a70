// SPDX-License-Identifier: Apache-2.0
//
// TMA descriptors, encoded by the driver.
#include "driver/launch/encode_map.h"

#include "driver/library/driver_library.h"

namespace weft {

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
  *map = encoded;
  return true;
}

}  // namespace weft
