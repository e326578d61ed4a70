// SPDX-License-Identifier: Apache-2.0
//
// What the static C++ library of a newer system takes from its libc, and glibc 2.28 has not.
#include <stdint.h>
#include <sys/random.h>

// A hint that no lock is needed; an extension never knows.
char __libc_single_threaded = 0;

// std::random_device's; weft has none.
uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value)) {
  }
  return value;
}
