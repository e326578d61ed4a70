// SPDX-License-Identifier: Apache-2.0
//
// Hints for the compiler about which way the code goes.
#ifndef WEFT_HINTS_H_
#define WEFT_HINTS_H_

#define WEFT_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define WEFT_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define WEFT_COLD __attribute__((noinline, cold))

#endif  // WEFT_HINTS_H_
