// SPDX-License-Identifier: Apache-2.0
//
// A barrier in shared memory is looked at when every thread waits: copies that report to it come as late as
// is legal.
//
// The threads of a warpgroup meet at one place, all 128 of them: as on a GPU, those that have returned are
// missed.
#include "cpu/rendezvous.h"

#include <algorithm>
#include <new>

#include "cpu/mbarrier.h"

namespace weft {

int32_t Rendezvous::open(const char** error) {
  int32_t opened = 0;
  for (int32_t first = 0; first < threads_ && *error == nullptr; first += kWarpgroupSize) {
    opened += open_warpgroup(first, error);
  }
  for (int32_t thread = 0; thread < threads_ && *error == nullptr; ++thread) {
    const weft_thread_slot& own = slots_[thread];
    if (own.state == WEFT_THREAD_MBARRIER) opened += open_mbarrier(slots_[thread], error) ? 1 : 0;
    if (own.state == WEFT_THREAD_NAMED) opened += open_named(thread, error);
  }
  return opened;
}

bool Rendezvous::open_mbarrier(weft_thread_slot& own, const char** error) {
  if (own.mask == WEFT_MBARRIER_MANY_ARRIVALS) {
    *error = "a thread arrives at an mbarrier whose phase has all its arrivals, and waits for bytes";
  }
  if (own.mask == WEFT_MBARRIER_MANY_BYTES) {
    *error = "a phase of an mbarrier expects less than 0 or more than 1048575 bytes";
  }
  if (*error != nullptr) return false;
  auto* word = reinterpret_cast<uint64_t*>(own.value);
  if (!mbarrier_test(word, own.lane) && copies_->complete_loads(word) != 0) {
    *error = "copies bring more bytes than an mbarrier counts";
    return false;
  }
  const bool is_complete = mbarrier_test(word, own.lane);
  if (own.mask == WEFT_MBARRIER_TRY) own.result = is_complete ? 1 : 0;
  if (!is_complete && own.mask != WEFT_MBARRIER_TRY) return false;
  own.state = WEFT_THREAD_READY;
  return true;
}

int32_t Rendezvous::open_named(int32_t number, const char** error) {
  weft_thread_slot& own = slots_[number];
  if (own.value < 1 || own.value >= std::size(arrived_)) {
    own.result = 0;
    *error = "there is no named barrier of this index";
    return 0;
  }
  int32_t& arrived = arrived_[own.value];
  if (own.mask == 0) {
    own.mask = 1;
    ++arrived;
    if (detector_ != nullptr) detector_->named_arrive(block_, static_cast<int32_t>(own.value), number);
  }
  int32_t opened = 0;
  if (kernel_.sites[own.site].operation == WEFT_COOPERATIVE_named_barrier_arrive) {
    own.state = WEFT_THREAD_READY;
    ++opened;
  }
  const bool opens = arrived == own.lane;
  for (int32_t thread = 0; thread < threads_; ++thread) {
    weft_thread_slot& other = slots_[thread];
    if (other.state != WEFT_THREAD_NAMED || other.value != own.value || other.mask == 0) continue;
    other.result = static_cast<uint64_t>(arrived);
    if (!opens) continue;
    if (detector_ != nullptr) detector_->named_pass(block_, static_cast<int32_t>(own.value), thread);
    other.state = WEFT_THREAD_READY;
    ++opened;
  }
  if (opens) arrived = 0;
  if (opens && detector_ != nullptr) detector_->named_opened(block_, static_cast<int32_t>(own.value));
  return opened;
}

int32_t Rendezvous::open_warpgroup(int32_t first, const char** error) {
  const Slots warpgroup = slots_.from(first);
  const int32_t size = std::min(threads_ - first, kWarpgroupSize);
  int32_t here = 0;
  int32_t exited = 0;
  int32_t site = -1;
  bool differ = false;
  for (int32_t thread = 0; thread < size; ++thread) {
    const weft_thread_slot& own = warpgroup[thread];
    exited += own.state == WEFT_THREAD_EXITED ? 1 : 0;
    if (own.state != WEFT_THREAD_WARPGROUP) continue;
    differ |= here != 0 && own.site != site;
    site = own.site;
    ++here;
  }
  if (here == 0) return 0;
  if (size < kWarpgroupSize) {
    *error = "a warpgroup has 128 threads, but the block's last one has fewer";
  } else if (exited != 0) {
    *error = "a warpgroup waits for threads that have exited";
  } else if (differ) {
    *error = "threads of a warpgroup wait at different places";
  } else if (here == kWarpgroupSize) {
    *error = compute_warpgroup(first, kernel_.sites[site]);
  }
  if (*error != nullptr || here < kWarpgroupSize) return 0;
  if (detector_ != nullptr && kernel_.sites[site].operation == WEFT_COOPERATIVE_warpgroup_barrier) {
    detector_->meet_threads(block_, first, kWarpgroupSize);
  }
  for (int32_t thread = 0; thread < kWarpgroupSize; ++thread) {
    warpgroup[thread].state = WEFT_THREAD_READY;
  }
  return kWarpgroupSize;
}

const char* Rendezvous::compute_warpgroup(int32_t first, const weft_cooperative_site& site) {
  const bool computes =
      site.operation == WEFT_COOPERATIVE_wgmma_mma || site.operation == WEFT_COOPERATIVE_wgmma_wait;
  if (!computes) return nullptr;
  try {
    if (wgmmas_.empty()) wgmmas_.resize(static_cast<size_t>(threads_ / kWarpgroupSize));
    WarpgroupMma& own = wgmmas_[static_cast<size_t>(first / kWarpgroupSize)];
    const Slots warpgroup = slots_.from(first);
    return site.operation == WEFT_COOPERATIVE_wgmma_mma ? own.start(warpgroup) : own.wait(warpgroup);
  } catch (const std::bad_alloc&) {
    return "there is no memory for a wgmma";
  }
}

}  // namespace weft
