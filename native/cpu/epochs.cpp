// SPDX-License-Identifier: Apache-2.0
//
// Runs of epochs, in the order of their numbers.
#include "cpu/epochs.h"

#include <algorithm>

namespace weft {

uint64_t Epochs::Runs::add(const Owner& owner, int32_t count) {
  const uint64_t first = next;
  if (!extend(owner, count)) runs.push_back({first, owner, 1});
  next += static_cast<uint64_t>(count);
  return first;
}

bool Epochs::Runs::extend(const Owner& owner, int32_t count) {
  if (runs.empty()) return false;
  Run& last = runs.back();
  if (last.owner.block != owner.block || last.owner.count != owner.count) return false;
  const bool is_one = next - last.first == 1;
  // Of the one epoch of a run it is not known yet whose the next one is.
  if (is_one && count == 1 && owner.thread == last.owner.thread) last.step = 0;
  if (last.step == 0 && count != 1) return false;
  return last.at(next).thread == owner.thread;
}

uint64_t Epochs::Runs::add_once(const Owner& owner) {
  if (!runs.empty()) {
    const Owner last = runs.back().at(next - 1);
    if (last.block == owner.block && last.thread == owner.thread && last.count == owner.count)
      return next - 1;
  }
  return add(owner, 1);
}

Owner Epochs::Runs::owner(uint64_t epoch) const {
  const auto after = std::upper_bound(runs.begin(), runs.end(), epoch,
                                      [](uint64_t number, const Run& run) { return number < run.first; });
  return (after - 1)->at(epoch);
}

}  // namespace weft
