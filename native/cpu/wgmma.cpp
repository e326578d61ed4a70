// SPDX-License-Identifier: Apache-2.0
//
// wgmma of tiles in shared memory: decoding, sums, and the exchange with the threads' fragments.
#include "cpu/wgmma.h"

#include <weft/cpu_mma.h>

#include <algorithm>
#include <cstring>

#include "cpu/small_floats.h"

namespace weft {
namespace {

// Below are PTX's tables for wgmma: which elements of a fragment a thread of the warpgroup holds.

// Calls `visit` with the number of each element in the thread's and in the matrix's order. The thread's:
// blocks of 64 rows, then of 8 columns, halves of 8 rows, adjacent elements.
template <typename Visit>
void for_each_sum(int thread, int m, int n, Visit visit) {
  const int across = n / 8;
  for (int index = 0; index < m * n / kWarpgroupSize; ++index) {
    const int block = index / 4;
    const int row = 64 * (block / across) + 16 * (thread / 32) + thread % 32 / 4 + index / 2 % 2 * 8;
    const int column = block % across * 8 + thread % 4 * 2 + index % 2;
    visit(static_cast<ptrdiff_t>(index), static_cast<ptrdiff_t>(row) * n + column);
  }
}

// An element of a thread's sums to one of the matrix, and back.
void read_sum(int32_t type, const char* own, ptrdiff_t index, char* values, ptrdiff_t place) {
  char* to = values + place * static_cast<ptrdiff_t>(sizeof(float));
  if (type != WEFT_MMA_f16) {
    std::memcpy(to, own + index * static_cast<ptrdiff_t>(sizeof(float)), sizeof(float));
    return;
  }
  uint16_t bits;
  std::memcpy(&bits, own + index * static_cast<ptrdiff_t>(sizeof bits), sizeof bits);
  const float value = float_of_f16(bits);
  std::memcpy(to, &value, sizeof value);
}

void write_sum(int32_t type, char* own, ptrdiff_t index, const char* values, ptrdiff_t place) {
  const char* from = values + place * static_cast<ptrdiff_t>(sizeof(float));
  if (type != WEFT_MMA_f16) {
    std::memcpy(own + index * static_cast<ptrdiff_t>(sizeof(float)), from, sizeof(float));
    return;
  }
  float value;
  std::memcpy(&value, from, sizeof value);
  const auto bits = static_cast<uint16_t>(f16_of_float(value));
  std::memcpy(own + index * static_cast<ptrdiff_t>(sizeof bits), &bits, sizeof bits);
}

// Where element `index` of A lies in m rows of k elements; `pack` adjacent elements share a register.
ptrdiff_t a_place(int thread, int index, int k, int pack) {
  const int across = k / (4 * pack);
  const int rest = index / pack;
  const int row = 64 * (rest / 2 / across) + 16 * (thread / 32) + thread % 32 / 4 + rest % 2 * 8;
  return ptrdiff_t{row} * k + (rest / 2 % across * 4 + thread % 4) * pack + index % pack;
}

template <typename Value>
Value read_as(const char* address) {
  Value value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

// Calls `visit` with a function that reads an element of the type at an address, and its size. Integers of 8
// bits are exact as floats.
template <typename Visit>
void with_reader(int32_t type, Visit visit) {
  switch (type) {
    case WEFT_MMA_bf16:
      return visit([](const char* at) { return float_of_bf16(read_as<uint16_t>(at)); }, 2);
    case WEFT_MMA_f16:
      return visit([](const char* at) { return float_of_f16(read_as<uint16_t>(at)); }, 2);
    case WEFT_MMA_tf32:
      // The tensor cores do not see the lowest 13 bits.
      return visit([](const char* at) { return value_of<float>(read_as<uint32_t>(at) & ~0x1fffU); }, 4);
    case WEFT_MMA_f8e4m3:
      return visit([](const char* at) { return float_of_e4m3(read_as<uint8_t>(at)); }, 1);
    case WEFT_MMA_f8e5m2:
      return visit([](const char* at) { return float_of_e5m2(read_as<uint8_t>(at)); }, 1);
    case WEFT_MMA_i8:
      return visit([](const char* at) { return static_cast<float>(read_as<int8_t>(at)); }, 1);
    default:
      return visit([](const char* at) { return static_cast<float>(read_as<uint8_t>(at)); }, 1);
  }
}

// Copies a tile as floats: element (row, column) of the storage to row * row_step + column * column_step.
void decode(const weft_wgmma_operand& operand, const char* tile, int rows, int columns, float* to,
            int row_step, int column_step) {
  with_reader(operand.type, [&](auto element, int size) {
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const int64_t offset =
            column / operand.atom * operand.atom_stride + int64_t{row} * operand.atom + column % operand.atom;
        const auto linear = reinterpret_cast<uintptr_t>(tile) + static_cast<uintptr_t>(offset * size);
        const uintptr_t physical = linear ^ (linear >> 3 & static_cast<uintptr_t>(operand.mask));
        to[row * row_step + column * column_step] = element(reinterpret_cast<const char*>(physical));
      }
    }
  });
}

// The operand with K along its columns (A) or its rows (B), `along` elements in each step of the other.
void decode_a(const weft_wgmma_shape& shape, const char* tile, float* to) {
  if (shape.a.k_is_row != 0) return decode(shape.a, tile, shape.k, shape.m, to, 1, shape.k);
  decode(shape.a, tile, shape.m, shape.k, to, shape.k, 1);
}

void decode_b(const weft_wgmma_shape& shape, const char* tile, float* to) {
  if (shape.b.k_is_row != 0) return decode(shape.b, tile, shape.k, shape.n, to, shape.n, 1);
  decode(shape.b, tile, shape.n, shape.k, to, 1, shape.n);
}

// sums[m][n] += a[m][k] * b[k][n], each sum in the order of k; rounded to f16 after each `rounded` steps,
// unless 0.
template <typename Sum>
void multiply(const weft_wgmma_shape& shape, const float* a, const float* b, Sum* sums, int rounded = 0) {
  for (int row = 0; row < shape.m; ++row) {
    Sum* own = sums + static_cast<ptrdiff_t>(row) * shape.n;
    for (int step = 0; step < shape.k; ++step) {
      const float factor = a[row * shape.k + step];
      const float* other = b + static_cast<ptrdiff_t>(step) * shape.n;
      for (int column = 0; column < shape.n; ++column) {
        own[column] += static_cast<Sum>(factor * other[column]);
      }
      if (rounded == 0 || (step + 1) % rounded != 0) continue;
      for (int column = 0; column < shape.n; ++column) {
        own[column] = static_cast<Sum>(float_of_f16(f16_of_float(static_cast<float>(own[column]))));
      }
    }
  }
}

weft_wgmma_start& wgmma_of(const Slots& threads, int thread) {
  return *reinterpret_cast<weft_wgmma_start*>(threads[thread].value);
}

}  // namespace

size_t WarpgroupMma::find_sums(int64_t handle) const {
  const auto found =
      std::find_if(sums_.begin(), sums_.end(), [&](const Sums& sums) { return sums.newest == handle; });
  return static_cast<size_t>(found - sums_.begin());
}

const char* WarpgroupMma::start(const Slots& threads) {
  const weft_wgmma_start& first = wgmma_of(threads, 0);
  const weft_wgmma_shape& shape = *first.shape;
  const bool of_fragment = shape.a.atom == 0;
  for (int thread = 1; thread < kWarpgroupSize; ++thread) {
    const weft_wgmma_start& own = wgmma_of(threads, thread);
    const bool same = own.shape == first.shape && own.b == first.b && own.handle == first.handle &&
                      (own.accumulates != 0) == (first.accumulates != 0) && (of_fragment || own.a == first.a);
    if (!same) return "the threads of a warpgroup multiply different tiles";
  }
  Wgmma wgmma{
      &shape, first.a, first.b, {}, find_sums(std::max<int64_t>(first.handle, 0)), first.accumulates != 0};
  if (first.handle <= 0) {
    if (wgmma.sums == sums_.size()) sums_.emplace_back();
    Sums& sums = sums_[wgmma.sums];
    sums.m = shape.m;
    sums.n = shape.n;
    sums.type = shape.sums;
    sums.values.resize(sizeof(float) * static_cast<size_t>(shape.m) * static_cast<size_t>(shape.n));
    for (int thread = 0; thread < kWarpgroupSize && wgmma.accumulates; ++thread) {
      const char* own = wgmma_of(threads, thread).sums;
      for_each_sum(thread, shape.m, shape.n, [&](ptrdiff_t index, ptrdiff_t place) {
        read_sum(sums.type, own, index, sums.values.data(), place);
      });
    }
  } else if (wgmma.sums == sums_.size()) {
    return "a wgmma accumulates into a fragment that another wgmma has taken";
  }
  if (of_fragment) {
    wgmma.fragment.resize(static_cast<size_t>(shape.m) * static_cast<size_t>(shape.k));
    const int count = shape.m * shape.k / kWarpgroupSize;
    with_reader(shape.a.type, [&](auto element, int size) {
      for (int thread = 0; thread < kWarpgroupSize; ++thread) {
        const char* elements = wgmma_of(threads, thread).a;
        for (int index = 0; index < count; ++index) {
          wgmma.fragment[static_cast<size_t>(a_place(thread, index, shape.k, 4 / size))] =
              element(elements + ptrdiff_t{index} * size);
        }
      }
    });
  }
  ++started_;
  sums_[wgmma.sums].newest = started_;
  pending_.push_back(std::move(wgmma));
  for (int thread = 0; thread < kWarpgroupSize; ++thread) wgmma_of(threads, thread).handle = started_;
  return nullptr;
}

void WarpgroupMma::compute(const Wgmma& wgmma) {
  const weft_wgmma_shape& shape = *wgmma.shape;
  std::vector<char>& values = sums_[wgmma.sums].values;
  if (!wgmma.accumulates) std::fill(values.begin(), values.end(), '\0');
  const float* a = wgmma.fragment.data();
  if (wgmma.fragment.empty()) {
    a_.resize(static_cast<size_t>(shape.m) * static_cast<size_t>(shape.k));
    decode_a(shape, wgmma.a, a_.data());
    a = a_.data();
  }
  b_.resize(static_cast<size_t>(shape.k) * static_cast<size_t>(shape.n));
  decode_b(shape, wgmma.b, b_.data());
  static_assert(sizeof(int32_t) == sizeof(float));
  if (shape.sums == WEFT_MMA_i32) {
    return multiply(shape, a, b_.data(), reinterpret_cast<int32_t*>(values.data()));
  }
  // An instruction takes 32 bytes of K.
  const bool is_16_bits = shape.b.type == WEFT_MMA_f16 || shape.b.type == WEFT_MMA_bf16;
  const int rounded = shape.sums == WEFT_MMA_f16 ? (is_16_bits ? 16 : 32) : 0;
  multiply(shape, a, b_.data(), reinterpret_cast<float*>(values.data()), rounded);
}

const char* WarpgroupMma::wait(const Slots& threads) {
  const auto wait_of = [&](int thread) -> weft_wgmma_wait& {
    return *reinterpret_cast<weft_wgmma_wait*>(threads[thread].value);
  };
  const auto left = static_cast<size_t>(wait_of(0).pending);
  const size_t done = pending_.size() > left ? pending_.size() - left : 0;
  for (size_t index = 0; index < done; ++index) compute(pending_[index]);
  const int64_t last = started_ - static_cast<int64_t>(pending_.size() - done);
  const int32_t fragments = wait_of(0).count;
  for (int32_t number = 0; number < fragments; ++number) {
    const auto fragment_of = [&](int thread) -> weft_wgmma_fragment& {
      return reinterpret_cast<weft_wgmma_fragment*>(&wait_of(thread) + 1)[number];
    };
    const int64_t handle = fragment_of(0).handle;
    if (handle <= 0 || handle > last) continue;
    const size_t found = find_sums(handle);
    if (found == sums_.size()) return "a fragment is waited for after another wgmma has taken it";
    Sums& sums = sums_[found];
    for (int thread = 0; thread < kWarpgroupSize; ++thread) {
      weft_wgmma_fragment& own = fragment_of(thread);
      own.handle = 0;
      for_each_sum(thread, sums.m, sums.n, [&](ptrdiff_t index, ptrdiff_t place) {
        write_sum(sums.type, own.sums, index, sums.values.data(), place);
      });
    }
    sums.newest = 0;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(done));
  return nullptr;
}

}  // namespace weft
