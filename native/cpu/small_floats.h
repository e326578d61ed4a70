// SPDX-License-Identifier: Apache-2.0
//
// Floats below 32 bits, and their bits.
#ifndef WEFT_CPU_SMALL_FLOATS_H_
#define WEFT_CPU_SMALL_FLOATS_H_

#include <cstdint>
#include <cstring>

namespace weft {

template <typename Value>
Value value_of(uint64_t bits) {
  Value value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Value>
uint64_t bits_of(Value value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

inline float float_of_bf16(uint64_t bits) { return value_of<float>(bits << 16); }

// To nearest even; a NaN stays one.
inline uint64_t bf16_of_float(float value) {
  const auto bits = static_cast<uint32_t>(bits_of(value));
  if (value != value) return (bits >> 16 | 0x40) & 0xffff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline float float_of_f16(uint64_t bits) {
  const auto sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const auto exponent = static_cast<uint32_t>(bits >> 10 & 0x1f);
  const auto fraction = static_cast<uint32_t>(bits & 0x3ff);
  if (exponent == 0x1f) return value_of<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return value_of<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

// To nearest even; too large becomes infinite, a NaN stays one.
inline uint64_t f16_of_float(float value) {
  const auto bits = static_cast<uint32_t>(bits_of(value));
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Below the smallest normal number, adding 0.5 rounds at the last place of a subnormal.
    const float shifted = value_of<float>(magnitude) + 0.5F;
    return sign | (static_cast<uint32_t>(bits_of(shifted)) - 0x3f000000);
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | ((rounded >> 13) - (112U << 10));
}

// 4 bits of exponent, 3 of fraction; no infinities, all bits set are NaN.
inline float float_of_e4m3(uint64_t bits) {
  const auto sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const auto magnitude = static_cast<uint32_t>(bits & 0x7f);
  if (magnitude == 0x7f) return value_of<float>(sign | 0x7fc00000);
  if (magnitude >= 8) return value_of<float>(sign | ((magnitude << 20) + (120U << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9F;
  return sign != 0 ? -subnormal : subnormal;
}

// The upper half of an f16.
inline float float_of_e5m2(uint64_t bits) { return float_of_f16(bits << 8 & 0xffff); }

}  // namespace weft

#endif  // WEFT_CPU_SMALL_FLOATS_H_
