// SPDX-License-Identifier: Apache-2.0
//
// The rows of the runtime table for numbers that generated code does not convert itself: 64-bit unsigned
// integers and floats narrower than f32.
#ifndef WEFT_RUNTIME_SCALAR_H_
#define WEFT_RUNTIME_SCALAR_H_

#include <weft/runtime_table.h>

namespace weft {

int32_t decode_u64(const weft_failure_site* kind, const weft_failure_site* range, const TVMFFIAny* argument,
                   uint64_t* value);
// Bits of the nearest value of a narrower float type (f16, bf16, f8; DLDataType as 32 bits), ties to even, or
// -1 if a finite value is beyond `*largest`, or for an infinity that the type does not have (f8e4m3).
int64_t round_to_float(int32_t dtype, double value, double* largest);
int64_t narrow_float(const weft_failure_site* site, int32_t dtype, double value);
double widen_float(int32_t dtype, int64_t bits);
bool is_narrow_float(int32_t dtype);  // whether the functions above know the type
int32_t make_u64(uint64_t value, TVMFFIAny* result);

}  // namespace weft

#endif  // WEFT_RUNTIME_SCALAR_H_
