// SPDX-License-Identifier: Apache-2.0
//
// mma of a warp's fragments: gathers rows from the lanes, multiplies, and scatters.
#include "cpu/mma.h"

#include <weft/cpu_mma.h>

#include <memory>
#include <type_traits>

#include "cpu/small_floats.h"

namespace weft {
namespace {

constexpr int kMostElements = 8192;  // of A, of B and of a row of C, as language/matrix/mma.py says

template <typename Bits>
Bits read(const void* elements, int index) {
  Bits bits;
  std::memcpy(&bits, static_cast<const char*>(elements) + index * static_cast<int>(sizeof bits), sizeof bits);
  return bits;
}

// Calls `visit` with a function that reads a lane's element as a `Value`.
template <typename Value, typename Visit>
void with_reader(int32_t type, Visit visit) {
  if constexpr (std::is_same_v<Value, double>) {
    visit([](const void* from, int index) { return read<double>(from, index); });
  } else if constexpr (std::is_same_v<Value, int32_t>) {
    if (type == WEFT_MMA_i8)
      return visit([](const void* from, int i) { return int32_t{read<int8_t>(from, i)}; });
    if (type == WEFT_MMA_u8)
      return visit([](const void* from, int i) { return int32_t{read<uint8_t>(from, i)}; });
    visit([](const void* from, int index) { return read<int32_t>(from, index); });
  } else {
    switch (type) {
      case WEFT_MMA_bf16:
        return visit([](const void* from, int i) { return float_of_bf16(read<uint16_t>(from, i)); });
      case WEFT_MMA_f16:
        return visit([](const void* from, int i) { return float_of_f16(read<uint16_t>(from, i)); });
      case WEFT_MMA_f8e4m3:
        return visit([](const void* from, int i) { return float_of_e4m3(read<uint8_t>(from, i)); });
      case WEFT_MMA_f8e5m2:
        return visit([](const void* from, int i) { return float_of_e5m2(read<uint8_t>(from, i)); });
      case WEFT_MMA_tf32:
        // The tensor cores do not see the lowest 13 bits.
        return visit(
            [](const void* from, int i) { return value_of<float>(read<uint32_t>(from, i) & ~0x1fffU); });
      default:
        return visit([](const void* from, int i) { return read<float>(from, i); });
    }
  }
}

// Adjacent elements along K in a register of 32 bits.
int pack_of(int32_t type) {
  if (type == WEFT_MMA_bf16 || type == WEFT_MMA_f16) return 2;
  return type == WEFT_MMA_tf32 || type == WEFT_MMA_f64 ? 1 : 4;
}

const weft_mma_operands& operands_of(const Warp& warp, int lane) {
  return *reinterpret_cast<const weft_mma_operands*>(warp[lane].value);
}

template <typename Value>
struct Operands {
  Value a[kMostElements];
  Value b[kMostElements];
  Value row[kMostElements];
};

// Columns of A as the lanes hold it.
int columns_of_a(const weft_mma_shape& shape) { return shape.is_sparse != 0 ? shape.depth / 2 : shape.depth; }

// Four bits of metadata for a chunk, which has two of four adjacent elements, or of tf32 one of two.
uint32_t chunk_metadata(const Warp& warp, const weft_mma_shape& shape, int row, int chunk) {
  const int block = row / 16;
  const int is_lower = row % 16 / 8;
  int lane = row % 8 * 4;
  int index, shift;
  if (pack_of(shape.a) == 4) {
    // A lane has 8 chunks of one row.
    lane += chunk / 8 % 2 * 2 + is_lower;
    index = block * (shape.depth / 64) + chunk / 16;
    shift = chunk % 8 * 4;
  } else {
    // A lane has 4 chunks of each of two rows; the lanes of a row serve two instructions.
    const int chunks = pack_of(shape.a) == 2 ? shape.depth / 4 : shape.depth / 2;
    lane += chunk / 4 % 4;
    index = block * ((chunks + 15) / 16) + chunk / 16;
    shift = is_lower * 16 + chunk % 4 * 4;
  }
  return operands_of(warp, lane).metadata[index] >> shift & 15U;
}

// The row of B that a column of A is multiplied by.
int row_of_b(const Warp& warp, const weft_mma_shape& shape, int row, int k) {
  if (shape.is_sparse == 0) return k;
  if (pack_of(shape.a) == 1) return 2 * k + static_cast<int>(chunk_metadata(warp, shape, row, k) >> 3);
  const uint32_t bits = chunk_metadata(warp, shape, row, k / 2);
  return k / 2 * 4 + static_cast<int>(bits >> k % 2 * 2 & 3U);
}

// Copies A to rows of K, 16 rows of tiles at a time, and B to rows of N.
template <typename Value>
void gather(const Warp& warp, const weft_mma_shape& shape, Operands<Value>& operands) {
  const int pack = pack_of(shape.a);
  const int depth = columns_of_a(shape);
  const int across = shape.depth / (4 * pack);
  with_reader<Value>(shape.a, [&](auto element) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const void* own = operands_of(warp, lane).a;
      int index = 0;
      for (int down = 0; down < shape.rows; down += 16) {
        for (int block = 0; block < depth / (4 * pack); ++block) {
          for (int row = down + lane / 4; row < down + 16; row += 8) {
            Value* to = operands.a + row * depth + (4 * block + lane % 4) * pack;
            for (int next = 0; next < pack; ++next) to[next] = element(own, index++);
          }
        }
      }
    }
  });
  with_reader<Value>(shape.b, [&](auto element) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const void* own = operands_of(warp, lane).b;
      int index = 0;
      for (int column = lane / 4; column < shape.columns; column += 8) {
        for (int block = 0; block < across; ++block) {
          for (int next = 0; next < pack; ++next) {
            const int k = (4 * block + lane % 4) * pack + next;
            operands.b[k * shape.columns + column] = element(own, index++);
          }
        }
      }
    }
  });
}

// Calls `visit` with each lane and index of a row's pairs of C, and their place in the row.
template <typename Visit>
void for_each_pair(const weft_mma_shape& shape, int row, Visit visit) {
  const int half = row % 16 / 8;
  for (int column = 0; column < shape.columns; column += 2) {
    const int block = row / 16 * (shape.columns / 8) + column / 8;
    visit(row % 8 * 4 + column % 8 / 2, block * 4 + half * 2, column);
  }
}

template <typename Value>
void store(int32_t type, void* to, int index, Value value) {
  auto* place = static_cast<char*>(to);
  if constexpr (std::is_same_v<Value, float>) {
    if (type == WEFT_MMA_f16) {
      const auto bits = static_cast<uint16_t>(f16_of_float(value));
      std::memcpy(place + index * 2, &bits, sizeof bits);
      return;
    }
  }
  std::memcpy(place + index * static_cast<int>(sizeof value), &value, sizeof value);
}

template <typename Value>
void add_multiple(Value* sum, Value scale, const Value* other, int columns) {
  for (int first = 0; first < columns; first += 8) {
    for (int column = first; column < first + 8; ++column) {
      if constexpr (std::is_integral_v<Value>) {
        sum[column] = static_cast<Value>(static_cast<uint32_t>(sum[column]) +
                                         static_cast<uint32_t>(scale * other[column]));
      } else {
        sum[column] += scale * other[column];
      }
    }
  }
}

void round_to_f16(float* values, int count) {
  for (int index = 0; index < count; ++index) values[index] = float_of_f16(f16_of_float(values[index]));
}

template <typename Value>
void multiply(const Warp& warp, const weft_mma_shape& shape) {
  // Sums in f16 are rounded after each instruction, of 32 bytes of a row of A.
  const int terms = columns_of_a(shape);
  const int rounded = shape.c == WEFT_MMA_f16 ? 8 * pack_of(shape.a) : 0;
  static thread_local const auto kMemory = std::make_unique<Operands<Value>>();
  Operands<Value>& operands = *kMemory;
  gather(warp, shape, operands);
  with_reader<Value>(shape.c, [&](auto element) {
    for (int row = 0; row < shape.rows; ++row) {
      for_each_pair(shape, row, [&](int lane, int index, int column) {
        const void* own = operands_of(warp, lane).c;
        for (int next = 0; next < 2; ++next) operands.row[column + next] = element(own, index + next);
      });
      const Value* a = operands.a + row * terms;
      for (int k = 0; k < terms; ++k) {
        const Value* b = operands.b + row_of_b(warp, shape, row, k) * shape.columns;
        add_multiple(operands.row, a[k], b, shape.columns);
        if constexpr (std::is_same_v<Value, float>) {
          if (rounded != 0 && (k + 1) % rounded == 0) round_to_f16(operands.row, shape.columns);
        }
      }
      for_each_pair(shape, row, [&](int lane, int index, int column) {
        void* own = operands_of(warp, lane).d;
        for (int next = 0; next < 2; ++next) store(shape.c, own, index + next, operands.row[column + next]);
      });
    }
  });
}

}  // namespace

bool has_ordered_metadata(const Warp& warp) {
  const weft_mma_shape& shape = *operands_of(warp, 0).shape;
  if (shape.is_sparse == 0) return true;
  const bool is_single = pack_of(shape.a) == 1;
  for (int row = 0; row < shape.rows; ++row) {
    for (int chunk = 0; chunk < shape.depth / (is_single ? 2 : 4); ++chunk) {
      const uint32_t bits = chunk_metadata(warp, shape, row, chunk);
      if (is_single ? bits != 4 && bits != 14 : (bits & 3U) >= bits >> 2) return false;
    }
  }
  return true;
}

void multiply_fragments(const Warp& warp) {
  const weft_mma_shape& shape = *operands_of(warp, 0).shape;
  if (shape.c == WEFT_MMA_f64) return multiply<double>(warp, shape);
  if (shape.c == WEFT_MMA_i32) return multiply<int32_t>(warp, shape);
  multiply<float>(warp, shape);
}

}  // namespace weft
