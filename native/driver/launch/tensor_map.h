// SPDX-License-Identifier: Apache-2.0
//
// TMA descriptors: how the driver encodes one, and weft._native.TensorMap, one with its parameters.
#ifndef WEFT_DRIVER_TENSOR_MAP_H_
#define WEFT_DRIVER_TENSOR_MAP_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

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

bool is_tensor_map(PyObject* object);

// The 128 bytes of a TensorMap, borrowed; nullptr with ValueError for one that is not filled.
const void* tensor_map_of(PyObject* object);

}  // namespace weft

#endif  // WEFT_DRIVER_TENSOR_MAP_H_
