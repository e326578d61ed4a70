// SPDX-License-Identifier: Apache-2.0
//
// Where the rows of a tensor map's box lie, in its tensor and in a tile.
#ifndef WEFT_CPU_BOXES_H_
#define WEFT_CPU_BOXES_H_

#include <weft/tensor_map.h>

#include <algorithm>
#include <cstdint>

namespace weft {

// Row after row of the box. `visit(global, is_inside, offset, elements)`: where index 0 of the last dimension
// is in the tensor, which has the row or not, elements from the tile's beginning, elements of the row.
template <typename Visit>
void visit_box(const weft_cpu_tensor_map& map, const weft_tma_tile& tile, const int32_t* indices,
               Visit visit) {
  const int32_t last = map.rank - 1;
  int64_t rows = 1;
  for (int32_t axis = 0; axis < last; ++axis) rows *= tile.box[axis];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row;
    int64_t offset = 0;
    char* global = map.address;
    bool is_inside = true;
    for (int32_t axis = last - 1; axis >= 0; --axis) {
      const int64_t place = rest % tile.box[axis];
      rest /= tile.box[axis];
      const int64_t index = indices[axis] + place;
      is_inside &= index >= 0 && index < map.sizes[axis];
      offset += place * tile.strides[axis];
      global += index * map.pitches[axis];
    }
    visit(global, is_inside, offset, tile.box[last]);
  }
}

// Pixel after pixel, as far as the kernel's first element goes along each dimension; then on in the next row,
// and in the next image. Reads are displaced by the offsets.
template <typename Visit>
void visit_pixels(const weft_cpu_tensor_map& map, const weft_tma_tile& tile, const int32_t* indices,
                  Visit visit) {
  const int32_t last = map.rank - 1;
  int64_t place[WEFT_TENSOR_MAP_RANK];
  std::copy(indices, indices + map.rank, place);
  for (int64_t pixel = 0; pixel < tile.box[0]; ++pixel) {
    char* global = map.address;
    bool is_inside = true;
    for (int32_t axis = 0; axis < last; ++axis) {
      const int64_t index = place[axis] + (axis == 0 ? 0 : indices[map.rank + axis - 1]);
      is_inside &= index >= 0 && index < map.sizes[axis];
      global += index * map.pitches[axis];
    }
    visit(global, is_inside, pixel * tile.strides[0], tile.box[1]);
    int32_t axis = last - 1;
    for (; axis > 0; --axis) {
      place[axis] += map.steps[axis - 1];
      if (place[axis] < map.sizes[axis] + map.upper[axis - 1]) break;
      place[axis] = map.lower[axis - 1];
    }
    if (axis == 0) ++place[0];
  }
}

// Of im2col, the offsets come after the indices.
template <typename Visit>
void visit_rows(const weft_cpu_tensor_map& map, const weft_tma_tile& tile, const int32_t* indices,
                Visit visit) {
  if (map.is_im2col != 0) return visit_pixels(map, tile, indices, visit);
  visit_box(map, tile, indices, visit);
}

}  // namespace weft

#endif  // WEFT_CPU_BOXES_H_
