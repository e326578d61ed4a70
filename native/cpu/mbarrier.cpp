// SPDX-License-Identifier: Apache-2.0
//
// The word: missing arrivals (20 bits), all arrivals of a phase (20 bits), missing bytes (23 bits, signed, as
// copies may come before anyone expects them), the phase's parity (1 bit).
#include "cpu/mbarrier.h"

#include <weft/cpu_cooperative.h>

namespace weft {
namespace {

constexpr int kArrivalBits = 20;
constexpr int64_t kMostBytes = (1 << 20) - 1;  // as on a GPU

struct Phase {
  int64_t missing;
  int64_t arrivals;
  int64_t bytes;
  int64_t parity;
};

Phase decoded(uint64_t word) {
  const uint64_t mask = (1U << kArrivalBits) - 1;
  return {static_cast<int64_t>(word & mask), static_cast<int64_t>(word >> kArrivalBits & mask),
          static_cast<int64_t>(word << 1) >> (2 * kArrivalBits + 1), static_cast<int64_t>(word >> 63)};
}

uint64_t encoded(const Phase& phase) {
  return static_cast<uint64_t>(phase.missing) | static_cast<uint64_t>(phase.arrivals) << kArrivalBits |
         static_cast<uint64_t>(phase.bytes) << (2 * kArrivalBits + 1) >> 1 |
         static_cast<uint64_t>(phase.parity) << 63;
}

// Stores the phase, or the next one if this is complete.
int32_t store(uint64_t* word, Phase phase) {
  if (phase.missing < 0) return WEFT_MBARRIER_MANY_ARRIVALS;
  if (phase.bytes > kMostBytes || phase.bytes < -kMostBytes) return WEFT_MBARRIER_MANY_BYTES;
  if (phase.missing == 0 && phase.bytes == 0) phase = {phase.arrivals, phase.arrivals, 0, 1 - phase.parity};
  *word = encoded(phase);
  return 0;
}

}  // namespace

int32_t mbarrier_arrive(uint64_t* word, int32_t count, int32_t expect_bytes) {
  Phase phase = decoded(*word);
  if (expect_bytes < 0) return WEFT_MBARRIER_MANY_BYTES;
  phase.missing -= count;
  phase.bytes += expect_bytes;
  return store(word, phase);
}

int32_t mbarrier_complete_bytes(uint64_t* word, int64_t bytes) {
  Phase phase = decoded(*word);
  phase.bytes -= bytes;
  return store(word, phase);
}

bool mbarrier_test(const uint64_t* word, int32_t parity) {
  return static_cast<int32_t>(*word >> 63) != parity;
}

std::string mbarrier_text(uint64_t word) {
  const Phase phase = decoded(word);
  std::string text =
      std::to_string(phase.missing) + " of " + std::to_string(phase.arrivals) + " arrivals are missing";
  if (phase.bytes > 0) text += " and " + std::to_string(phase.bytes) + " bytes";
  if (phase.bytes < 0) text += " and " + std::to_string(-phase.bytes) + " bytes came that no thread expected";
  return text;
}

}  // namespace weft
