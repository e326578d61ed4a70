// SPDX-License-Identifier: Apache-2.0
//
// The tensor cores of one warpgroup: wgmmas that its 128 threads start together, and wait for.
#ifndef WEFT_CPU_WARPGROUP_MMA_H_
#define WEFT_CPU_WARPGROUP_MMA_H_

#include <weft/cpu_wgmma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/slots.h"

namespace weft {

inline constexpr int32_t kWarpgroupSize = 128;

// They are computed as late as is legal, when the threads wait for them: only then is shared memory read.
// Sums are added in the order of k.
class WarpgroupMma {
 public:
  // Starts a wgmma; every thread's `value` points at its weft_wgmma_start. Returns an error, or NULL.
  // `threads` are the warpgroup's 128.
  const char* start(const Slots& threads);
  // Completes all but the newest wgmmas; every thread's `value` points at its weft_wgmma_wait.
  const char* wait(const Slots& threads);

 private:
  // Sums of a fragment in flight: m rows of n floats or integers of 4 bytes. An f16 is a float here.
  struct Sums {
    int64_t newest = 0;  // the last wgmma that accumulates into them; 0: free
    int m = 0, n = 0;
    int32_t type = 0;  // enum weft_mma_type
    std::vector<char> values;
  };
  struct Wgmma {
    const weft_wgmma_shape* shape;
    const char* a;
    const char* b;
    std::vector<float> fragment;  // of A, m rows of k elements; empty if A is a tile
    std::size_t sums;
    bool accumulates;
  };

  std::size_t find_sums(int64_t handle) const;
  void compute(const Wgmma& wgmma);

  std::vector<Sums> sums_;
  std::vector<Wgmma> pending_;  // oldest first
  int64_t started_ = 0;
  std::vector<float> a_, b_;  // of the wgmma being computed
};

}  // namespace weft

#endif  // WEFT_CPU_WARPGROUP_MMA_H_
