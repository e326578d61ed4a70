// SPDX-License-Identifier: Apache-2.0
//
// Hints: for the compiler about which way the code goes, for the processor about a loop that waits.
#ifndef WEFT_HINTS_H_
#define WEFT_HINTS_H_

#define WEFT_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define WEFT_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define WEFT_COLD __attribute__((noinline, cold))

namespace weft {

// One turn of a loop that waits for another thread.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` does nothing on these processors; `isb` takes about as long as x86's pause.
  __asm__ volatile("isb" ::: "memory");
#endif
}

}  // namespace weft

#endif  // WEFT_HINTS_H_
