// SPDX-License-Identifier: Apache-2.0
//
// Additions and the like of elements in memory that other blocks change too: each by comparing and
// exchanging.
#include "cpu/reductions.h"

#include <algorithm>
#include <cstring>

#include "cpu/small_floats.h"

namespace weft {
namespace {

// Sums of floats are rounded once; in a minimum or maximum, a NaN gives way to a number.
template <typename Value>
Value combined(int32_t reduction, Value one, Value other) {
  switch (reduction) {
    case WEFT_TMA_ADD:
      return static_cast<Value>(one + other);
    case WEFT_TMA_MIN:
      return other < one || one != one ? other : one;
    default:
      return one < other || one != one ? other : one;
  }
}

template <typename Bits>
Bits combined_bits(int32_t reduction, Bits one, Bits other) {
  switch (reduction) {
    case WEFT_TMA_AND:
      return one & other;
    case WEFT_TMA_OR:
      return one | other;
    default:
      return one ^ other;
  }
}

// `Bits` of an element, as which it is exchanged; `combine` computes the new ones.
template <typename Bits, typename Combine>
void each(char* place, const char* elements, size_t bytes, Combine combine) {
  for (size_t at = 0; at < bytes; at += sizeof(Bits)) {
    Bits other;
    std::memcpy(&other, elements + at, sizeof other);
    auto* element = reinterpret_cast<Bits*>(place + at);
    Bits one = __atomic_load_n(element, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(element, &one, combine(one, other), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
  }
}

template <typename Value, typename Bits>
void each_value(int32_t reduction, char* place, const char* elements, size_t bytes) {
  each<Bits>(place, elements, bytes, [&](Bits one, Bits other) {
    return static_cast<Bits>(bits_of(combined(reduction, value_of<Value>(one), value_of<Value>(other))));
  });
}

template <float (*widen)(uint64_t), uint64_t (*narrow)(float)>
void each_small(int32_t reduction, char* place, const char* elements, size_t bytes) {
  each<uint16_t>(place, elements, bytes, [&](uint16_t one, uint16_t other) {
    return static_cast<uint16_t>(narrow(combined(reduction, widen(one), widen(other))));
  });
}

// Wrapping sums are those of integers without a sign.
template <typename Value, typename Bits>
void each_integer(int32_t reduction, char* place, const char* elements, size_t bytes) {
  if (reduction == WEFT_TMA_ADD) return each_value<Bits, Bits>(reduction, place, elements, bytes);
  if (reduction == WEFT_TMA_MIN || reduction == WEFT_TMA_MAX) {
    return each_value<Value, Bits>(reduction, place, elements, bytes);
  }
  each<Bits>(place, elements, bytes,
             [&](Bits one, Bits other) { return combined_bits(reduction, one, other); });
}

}  // namespace

void tma_combine(const weft_cpu_tensor_map& map, int32_t reduction, char* place, const char* elements,
                 size_t bytes) {
  switch (map.data_type) {  // CUtensorMapDataType
    case 2:
      return each_integer<uint32_t, uint32_t>(reduction, place, elements, bytes);
    case 3:
      return each_integer<int32_t, uint32_t>(reduction, place, elements, bytes);
    case 4:
      return each_integer<uint64_t, uint64_t>(reduction, place, elements, bytes);
    case 5:
      return each_integer<int64_t, uint64_t>(reduction, place, elements, bytes);
    case 6:
      return each_small<float_of_f16, f16_of_float>(reduction, place, elements, bytes);
    case 7:
      return each_value<float, uint32_t>(reduction, place, elements, bytes);
    case 8:
      return each_value<double, uint64_t>(reduction, place, elements, bytes);
    case 9:
      return each_small<float_of_bf16, bf16_of_float>(reduction, place, elements, bytes);
    default:  // the compiler refuses other types
      return;
  }
}

}  // namespace weft
