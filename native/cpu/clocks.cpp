// SPDX-License-Identifier: Apache-2.0
//
// Clocks share what they have in common, so that a barrier costs one clock for all of its threads.
#include "cpu/clocks.h"

#include <algorithm>

namespace weft {

uint32_t Clock::at(int64_t block, int32_t thread) const {
  auto found = std::lower_bound(parts_.begin(), parts_.end(), block,
                                [](const Part& part, int64_t number) { return part.block < number; });
  if (found == parts_.end() || found->block != block) return 0;
  const Epochs& epochs = *found->epochs.get();
  const auto place = static_cast<std::size_t>(thread);
  return place < epochs.size() ? epochs[place] : 0;
}

Shared<Epochs>& Clock::part(int64_t block) {
  auto found = std::lower_bound(parts_.begin(), parts_.end(), block,
                                [](const Part& part, int64_t number) { return part.block < number; });
  if (found == parts_.end() || found->block != block) found = parts_.insert(found, {block, {}});
  return found->epochs;
}

void Clock::set(int64_t block, int32_t thread, uint32_t epoch) {
  Epochs& epochs = part(block).edit();
  const auto place = static_cast<std::size_t>(thread);
  if (place >= epochs.size()) epochs.resize(place + 1);
  epochs[place] = std::max(epochs[place], epoch);
}

void Clock::join(const Clock& other) {
  for (const Part& theirs : other.parts_) {
    Shared<Epochs>& own = part(theirs.block);
    if (own.is(theirs.epochs)) continue;
    if (own.empty()) {
      own = theirs.epochs;
      continue;
    }
    const Epochs& from = *theirs.epochs.get();
    Epochs& into = own.edit();
    if (into.size() < from.size()) into.resize(from.size());
    for (std::size_t place = 0; place < from.size(); ++place) {
      into[place] = std::max(into[place], from[place]);
    }
  }
}

void Clock::show_to_copies() {
  const std::vector<Part> known = parts_;
  Clock shown;
  for (const Part& own : known) {
    if (own.block < kProxy) shown.parts_.push_back({own.block + kProxy, own.epochs});
  }
  join(shown);
}

void Clocks::join(Shared<Clock>& into, const Shared<Clock>& from) {
  if (from.empty() || into.is(from)) return;
  if (into.empty()) {
    into = from;
    return;
  }
  if (!last_into_.empty() && into.is(last_into_) && from.is(last_from_)) {
    into = last_result_;
    return;
  }
  last_into_ = into;
  last_from_ = from;
  into.edit().join(*from.get());
  last_result_ = into;
}

void Clocks::release(WatchedBlock& block, int32_t thread, Shared<Clock>& into) {
  ThreadClock& own = block.threads[static_cast<std::size_t>(thread)];
  if (!own.known.empty()) {
    if (into.empty()) {
      into = own.known;
    } else if (!into.is(own.known)) {
      into.edit().join(*own.known.get());
    }
  }
  into.edit().set(block.number, thread, own.epoch++);
}

void Clocks::acquire(ThreadClock& own, const Shared<Clock>& from) { join(own.known, from); }

void Clocks::meet(const std::vector<std::pair<WatchedBlock*, int32_t>>& members) {
  Shared<Clock> all;
  const Clock* last = nullptr;
  for (const auto& [block, thread] : members) {
    const Shared<Clock>& known = block->threads[static_cast<std::size_t>(thread)].known;
    if (known.empty() || known.get() == last) continue;
    last = known.get();
    if (all.empty()) {
      all = known;
    } else {
      all.edit().join(*last);
    }
  }
  Clock& clock = all.edit();
  for (const auto& [block, thread] : members) {
    clock.set(block->number, thread, block->threads[static_cast<std::size_t>(thread)].epoch++);
  }
  for (const auto& [block, thread] : members) block->threads[static_cast<std::size_t>(thread)].known = all;
}

void Clocks::fence(WatchedBlock& block, int32_t thread) {
  ThreadClock& own = block.threads[static_cast<std::size_t>(thread)];
  join(own.known, own.pending);
  own.pending = {};
  own.released = {};
  release(block, thread, own.released);
}

void Clocks::proxy_fence(WatchedBlock& block, int32_t thread) {
  ThreadClock& own = block.threads[static_cast<std::size_t>(thread)];
  Clock& known = own.known.edit();
  known.set(block.number, thread, own.epoch++);
  known.show_to_copies();
}

}  // namespace weft
