// SPDX-License-Identifier: Apache-2.0
//
// The contract between the runtime and generated code about tensor maps: 128 bytes that kernels take as a
// parameter. On a GPU they are the driver's; on the CPU the numbers that a copy needs.
#ifndef WEFT_TENSOR_MAP_H_
#define WEFT_TENSOR_MAP_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_TENSOR_MAP_BYTES = 128, WEFT_TENSOR_MAP_RANK = 5, WEFT_TENSOR_MAP_SPATIAL = 3 };

// A `weft.tensor_map(...)` in a host function; constant data in the object.
typedef struct weft_tensor_map_site {
  const char* place;   // what messages begin with
  const char* tensor;  // its name in messages
  int32_t data_type;   // CUtensorMapDataType
  int32_t element_bytes;
  int32_t rank;
  int32_t swizzle;                    // CUtensorMapSwizzle
  int32_t l2_promotion;               // CUtensorMapL2promotion
  int32_t fill;                       // CUtensorMapFloatOOBfill
  int32_t box[WEFT_TENSOR_MAP_RANK];  // of one copy of the machine, slowest dimension first
  int32_t is_im2col;  // whether the box is pixels by channels; older objects end after it, with 0
  // Of im2col, for each spatial dimension: the first place of a kernel's first element, the last one counted
  // from the end, and the step between places.
  int32_t lower[WEFT_TENSOR_MAP_SPATIAL];
  int32_t upper[WEFT_TENSOR_MAP_SPATIAL];
  int32_t steps[WEFT_TENSOR_MAP_SPATIAL];
  int32_t padding;
} weft_tensor_map_site;

// Reduction of a copy into an element of a tensor.
enum weft_tma_reduction {
  WEFT_TMA_REPLACE = 0,
  WEFT_TMA_ADD = 1,
  WEFT_TMA_MIN = 2,
  WEFT_TMA_MAX = 3,
  WEFT_TMA_AND = 4,
  WEFT_TMA_OR = 5,
  WEFT_TMA_XOR = 6,
};

// A map on the CPU; dimensions are slowest first.
typedef struct weft_cpu_tensor_map {
  char* address;
  int64_t sizes[WEFT_TENSOR_MAP_RANK];
  int64_t pitches[WEFT_TENSOR_MAP_RANK];  // bytes between adjacent elements
  int32_t rank;
  int32_t data_type;  // CUtensorMapDataType
  int32_t element_bytes;
  int32_t fill;                            // CUtensorMapFloatOOBfill
  int64_t elements_found;                  // 1 if the tensor has elements: a GPU has no map of one without
  int16_t lower[WEFT_TENSOR_MAP_SPATIAL];  // of im2col, as in the site
  int16_t upper[WEFT_TENSOR_MAP_SPATIAL];
  int8_t steps[WEFT_TENSOR_MAP_SPATIAL];
  int8_t is_im2col;
} weft_cpu_tensor_map;

// How a box lies in shared memory; constant data in the object. Dimensions are slowest first.
typedef struct weft_tma_tile {
  int32_t box[WEFT_TENSOR_MAP_RANK];
  int32_t mask;  // of the swizzle, 0 for none
  int64_t
      strides[WEFT_TENSOR_MAP_RANK];  // between adjacent elements; of the last dimension 1, within an atom
  int64_t atom_columns;
  int64_t atom_stride;  // elements from one column of atoms to the next
} weft_tma_tile;

#ifdef __cplusplus
static_assert(sizeof(weft_cpu_tensor_map) == WEFT_TENSOR_MAP_BYTES);
}  // extern "C"
#endif

#endif  // WEFT_TENSOR_MAP_H_
