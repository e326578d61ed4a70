// SPDX-License-Identifier: Apache-2.0
//
// TMA descriptors: the parameters of one, and how the driver encodes it.
#ifndef WEFT_DRIVER_ENCODE_MAP_H_
#define WEFT_DRIVER_ENCODE_MAP_H_

#include <cstdint>

#include "driver/library/cuda_abi.h"
#include "driver/library/driver_error.h"

namespace weft {

constexpr int kMostMapRank = 5;

// A descriptor's parameters, comparable by bytes. Dimensions are in the driver's order: the fastest first.
struct MapDescription {
  uint64_t address;
  uint64_t dims[kMostMapRank];
  uint64_t byte_strides[kMostMapRank];  // of dimensions 1 and up; the fastest one's is its element
  uint32_t box[kMostMapRank];           // tiled
  uint32_t element_strides[kMostMapRank];
  int32_t lower[kMostMapRank], upper[kMostMapRank];  // im2col: rank - 2 of each
  uint32_t channels_per_pixel, pixels_per_column;
  int32_t is_im2col, data_type, rank, interleave, swizzle, l2_promotion, fill, padding;
};

bool encode_map(const MapDescription& wanted, cuda::CUtensorMap* map, DriverError* error);

}  // namespace weft

#endif  // WEFT_DRIVER_ENCODE_MAP_H_
