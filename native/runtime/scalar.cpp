// SPDX-License-Identifier: Apache-2.0
//
// Numbers that TVMFFIAny's int and float cannot hold directly.
#include "runtime/scalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ffi_library.h"
#include "runtime/dtypes.h"
#include "runtime/failure.h"

namespace weft {
namespace {

// A float format that is narrower than float:
//
//   | sign | exponent | mantissa |      value = 1.mantissa * 2^(exponent - bias); exponent 0: subnormal
struct FloatFormat {
  int32_t dtype;  // DLDataType as 32 bits: code | bits << 8 | lanes << 16
  int exponent_bits;
  int mantissa_bits;
  int64_t largest;   // bits of the largest finite value
  int64_t infinity;  // bits of infinity, or -1
  int64_t quiet_nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int64_t sign_bit() const { return int64_t{1} << (exponent_bits + mantissa_bits); }
};

constexpr int32_t dtype_bits(int32_t code, int32_t bits) { return code | bits << 8 | 1 << 16; }

constexpr FloatFormat kFormats[] = {
#define ROW(code, bits, exponent_bits, mantissa_bits, largest, infinity, nan, ...) \
  {dtype_bits(code, bits), exponent_bits, mantissa_bits, largest, infinity, nan},
    WEFT_NARROW_FLOATS(ROW)
#undef ROW
};

const FloatFormat* find_format(int32_t dtype) {
  for (const FloatFormat& format : kFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

// The value of unsigned bits that are neither a NaN nor an infinity.
double magnitude_of(const FloatFormat& format, int64_t bits) {
  const int64_t mantissa = bits & ((int64_t{1} << format.mantissa_bits) - 1);
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits);
  const int scale = -format.bias() - format.mantissa_bits;
  if (exponent == 0) return std::ldexp(static_cast<double>(mantissa), scale + 1);
  const auto whole = static_cast<double>(mantissa | int64_t{1} << format.mantissa_bits);
  return std::ldexp(whole, exponent + scale);
}

// Bits of the nearest value of the format, ties to even; may be beyond `largest`.
int64_t round_magnitude(const FloatFormat& format, double magnitude) {
  if (magnitude == 0) return 0;
  int exponent;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - format.bias());
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  return static_cast<int64_t>(units) +
         (static_cast<int64_t>(exponent + format.bias() - 1) << format.mantissa_bits);
}

int64_t bits_of(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

int32_t decode_u64(const weft_failure_site* kind, const weft_failure_site* range, const TVMFFIAny* argument,
                   uint64_t* value) {
  if (argument->type_index == kTVMFFIInt || argument->type_index == kTVMFFIBool) {
    return fail(range, argument->v_int64, 0);
  }
  if (argument->type_index != kTVMFFIBigInt || argument->v_obj == nullptr) return fail_any(kind, argument);
  const TVMFFIByteArray content = ffi().big_int_content(argument);
  // Two's complement with a guard word: a value from 2^63 to 2^64 - 1 is two words, the second one zero.
  uint64_t words[2] = {0, 0};
  if (content.size != sizeof(words)) return fail_any(range, argument);
  memcpy(words, content.data, sizeof(words));
  if (words[1] != 0) return fail_any(range, argument);
  *value = words[0];
  return 0;
}

int64_t round_to_float(int32_t dtype, double value, double* largest) {
  const FloatFormat* format = find_format(dtype);
  const int64_t sign = std::signbit(value) ? format->sign_bit() : 0;
  *largest = magnitude_of(*format, format->largest);
  if (std::isnan(value)) return sign | format->quiet_nan;
  if (std::isinf(value)) return format->infinity >= 0 ? sign | format->infinity : -1;
  const double magnitude = std::fabs(value);
  // Compared first, so that the conversion to an integer cannot overflow.
  if (magnitude > 2 * *largest) return -1;
  const int64_t bits = round_magnitude(*format, magnitude);
  return bits > format->largest ? -1 : sign | bits;
}

bool is_narrow_float(int32_t dtype) { return find_format(dtype) != nullptr; }

int64_t narrow_float(const weft_failure_site* site, int32_t dtype, double value) {
  if (!is_narrow_float(dtype)) return raise_error("RuntimeError", "narrow_float: no such float type");
  double largest;
  const int64_t bits = round_to_float(dtype, value, &largest);
  const bool vanishes = value != 0 && (bits & ~find_format(dtype)->sign_bit()) == 0;
  return bits < 0 || vanishes ? fail(site, bits_of(value), bits_of(largest)) : bits;
}

double widen_float(int32_t dtype, int64_t bits) {
  const FloatFormat* format = find_format(dtype);
  if (format == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const int64_t magnitude = bits & (format->sign_bit() - 1);
  const double sign = (bits & format->sign_bit()) != 0 ? -1.0 : 1.0;
  if (magnitude == format->infinity) return sign * std::numeric_limits<double>::infinity();
  if (magnitude > format->largest) return std::numeric_limits<double>::quiet_NaN();
  return sign * magnitude_of(*format, magnitude);
}

int32_t make_u64(uint64_t value, TVMFFIAny* result) {
  if ((value >> 63) == 0) {
    result->type_index = kTVMFFIInt;
    result->zero_padding = 0;
    result->v_uint64 = value;
    return 0;
  }
  const uint64_t words[2] = {value, 0};
  const TVMFFIByteArray content{reinterpret_cast<const char*>(words), sizeof(words)};
  return ffi().big_int_from_byte_array(&content, result) == 0 ? 0 : -1;
}

}  // namespace weft
