// SPDX-License-Identifier: Apache-2.0
//
// Waits of a block's threads besides its barriers and their own warp: for the rest of their warpgroup, and at
// barriers in shared memory.
#ifndef WEFT_CPU_RENDEZVOUS_H_
#define WEFT_CPU_RENDEZVOUS_H_

#include <weft/cpu_cooperative.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "cpu/copies.h"
#include "cpu/race_detector.h"
#include "cpu/slots.h"
#include "cpu/wgmma.h"

namespace weft {

// One block's.
class Rendezvous {
 public:
  // `copies`: of the block; they come when a thread waits for them.
  Rendezvous(const weft_cooperative_kernel& kernel, const Slots& slots, int32_t threads, Copies* copies)
      : kernel_(kernel), slots_(slots), threads_(threads), copies_(copies) {}

  // To be called when a block starts.
  void start(RaceDetector* detector, int64_t block) {
    detector_ = detector;
    block_ = block;
    wgmmas_.clear();
    std::fill(std::begin(arrived_), std::end(arrived_), 0);
  }

  // Continues the threads whose rendezvous is complete; returns how many. To be called when every thread has
  // run until it waits. If one will wait forever, `error` becomes the reason.
  int32_t open(const char** error);

 private:
  bool open_mbarrier(weft_thread_slot& own, const char** error);
  // `mask` becomes 1 when a thread's arrival has been counted, `result` how many have come.
  int32_t open_named(int32_t number, const char** error);
  int32_t open_warpgroup(int32_t first, const char** error);
  // Executes a warpgroup's operation at a site that all its threads have reached; returns an error, or NULL.
  const char* compute_warpgroup(int32_t first, const weft_cooperative_site& site);

  const weft_cooperative_kernel& kernel_;
  Slots slots_;
  int32_t threads_;
  Copies* copies_;
  RaceDetector* detector_ = nullptr;  // of the launch, if any
  int64_t block_ = 0;
  int32_t arrived_[8] = {};           // threads at each named barrier
  std::vector<WarpgroupMma> wgmmas_;  // of each warpgroup, if one of them multiplies
};

}  // namespace weft

#endif  // WEFT_CPU_RENDEZVOUS_H_
