// SPDX-License-Identifier: Apache-2.0
//
// Barriers in shared memory that count arrivals and bytes, as mbarriers of a GPU do, in one word of 64 bits.
#ifndef WEFT_CPU_MBARRIER_H_
#define WEFT_CPU_MBARRIER_H_

#include <cstdint>
#include <string>

namespace weft {

// All threads of a cluster run on one thread of the machine, so these need no atomics.

// A word's highest bit is the parity of its current phase, 0 at first; then it is arrivals * (2^20 + 1).

// The phase waits for `expect_bytes` more; then `count` arrive. Returns 0, or a weft_mbarrier_request that
// says why this is undefined on a GPU; then nothing has changed.
int32_t mbarrier_arrive(uint64_t* word, int32_t count, int32_t expect_bytes);

// A copy has delivered bytes. Returns as mbarrier_arrive.
int32_t mbarrier_complete_bytes(uint64_t* word, int64_t bytes);

// Whether the phase of this parity is complete: the current one has the other.
bool mbarrier_test(const uint64_t* word, int32_t parity);

// Missing arrivals and bytes of the current phase: "1 of 2 arrivals are missing and 64 bytes".
std::string mbarrier_text(uint64_t word);

}  // namespace weft

#endif  // WEFT_CPU_MBARRIER_H_
