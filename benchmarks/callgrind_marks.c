// SPDX-License-Identifier: Apache-2.0
//
// Tells callgrind which part of the process to count. Needs valgrind's headers to be built, and does nothing
// outside of valgrind.
#include <valgrind/callgrind.h>

void start_counting(void) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

void stop_counting(const char* name) {
  CALLGRIND_DUMP_STATS_AT(name);
  CALLGRIND_STOP_INSTRUMENTATION;
}
