// SPDX-License-Identifier: Apache-2.0
//
// Reads of memory that no thread has written: by then, that is. One that writes it later, with nothing in
// between that orders the two, makes it a race, so that they are reported when no thread can.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "cpu/race_detector.h"

namespace weft {
namespace {

constexpr std::size_t kMost = 4096;  // that are kept

}  // namespace

bool RaceDetector::keep_unwritten(const Access& access, Report report) {
  const int32_t flags = access.site.flags;
  const auto is_same = [&](const Unwritten& one) {
    return one.read.bits == seen_.other.bits && one.address == seen_.begin;
  };
  // A thread that waits for a change of the element may do so forever.
  const bool waits =
      (flags & WEFT_ACCESS_ATOMIC) != 0 && std::any_of(unwritten_.begin(), unwritten_.end(), is_same);
  if (waits || unwritten_.size() == kMost) {
    if (!continues()) report = std::move(unwritten_.front().report);
    return add(std::move(report));
  }
  const bool is_shared = (flags & WEFT_ACCESS_SHARED) != 0;
  unwritten_.push_back(
      {seen_.other, seen_.begin, seen_.length, access.block.number, is_shared, std::move(report)});
  return true;
}

void RaceDetector::drop_unwritten(const Access& access) {
  if (unwritten_.empty() || (access.site.flags & WEFT_ACCESS_WRITES) == 0) return;
  const auto races = [&](const Unwritten& one) {
    return one.address < seen_.begin + seen_.length && seen_.begin < one.address + one.bytes &&
           !is_past(one.read, access);
  };
  unwritten_.erase(std::remove_if(unwritten_.begin(), unwritten_.end(), races), unwritten_.end());
}

void RaceDetector::settle_unwritten(int64_t block, bool is_end) {
  if (unwritten_.empty()) return;
  const auto is_kept = [&](const Unwritten& one) {
    if (is_end) return false;
    if (block == kEvery) return !one.is_shared;
    // An asynchronous copy may read on after they have met.
    return !one.is_shared || one.block != block || Epochs::is_async(one.read.epoch());
  };
  const auto first = std::stable_partition(unwritten_.begin(), unwritten_.end(), is_kept);
  std::vector<Unwritten> settled(std::make_move_iterator(first), std::make_move_iterator(unwritten_.end()));
  unwritten_.erase(first, unwritten_.end());
  for (Unwritten& one : settled) add(std::move(one.report));
}

}  // namespace weft
