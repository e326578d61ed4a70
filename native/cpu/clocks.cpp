// SPDX-License-Identifier: Apache-2.0
//
// Clocks share what they have in common, so that a barrier costs one clock for all of its threads.
#include "cpu/clocks.h"

#include <algorithm>

namespace weft {

Clock::Part& Clock::part(int64_t block) {
  auto found = std::lower_bound(parts_.begin(), parts_.end(), block,
                                [](const Part& part, int64_t number) { return part.block < number; });
  if (found == parts_.end() || found->block != block) found = parts_.insert(found, {block, 0, {}});
  return *found;
}

void Clock::set(int64_t block, int32_t thread, uint64_t epoch) {
  Part& own = part(block);
  if (epoch <= own.all) return;
  Numbers& further = own.further.edit();
  const auto place = static_cast<std::size_t>(thread);
  if (place >= further.size()) further.resize(place + 1);
  further[place] = std::max(further[place], epoch);
}

void Clock::set_each(int64_t block, int32_t first, int32_t count, const ThreadClock* threads) {
  Numbers& further = part(block).further.edit();
  const auto place = static_cast<std::size_t>(first), size = static_cast<std::size_t>(count);
  if (place + size > further.size()) further.resize(place + size);
  for (std::size_t number = 0; number < size; ++number) further[place + number] = threads[number].epoch;
}

void Clock::set_all(int64_t block, uint64_t epoch) {
  Part& own = part(block);
  own.all = std::max(own.all, epoch);
  own.further = {};
}

void Clock::Part::join(const Part& other) {
  all = std::max(all, other.all);
  if (other.further.empty() || further.is(other.further)) return;
  if (further.empty()) {
    further = other.further;
    return;
  }
  const Numbers& from = *other.further.get();
  Numbers& into = further.edit();
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t place = 0; place < from.size(); ++place) {
    into[place] = std::max(into[place], from[place]);
  }
}

void Clock::join(const Clock& other) {
  for (const Part& theirs : other.parts_) part(theirs.block).join(theirs);
}

void Clock::show_to_copies(int64_t proxy) {
  const std::vector<Part> known = parts_;
  Clock shown;
  for (const Part& own : known) {
    if (own.block < kProxy) shown.parts_.push_back({own.block + proxy, own.all, own.further});
  }
  join(shown);
}

void Clocks::start(InstrumentedBlock& block) {
  const auto count = static_cast<int32_t>(block.threads.size());
  uint64_t epoch = epochs_->begin(block.number, 0, count);
  if (block.is_alone) block.first = block.met = epoch;
  for (ThreadClock& own : block.threads) own.epoch = epoch++;
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

void Clocks::release(InstrumentedBlock& block, int32_t thread, Shared<Clock>& into) {
  ThreadClock& own = block.threads[static_cast<std::size_t>(thread)];
  if (!own.known.empty()) {
    if (into.empty()) {
      into = own.known;
    } else if (!into.is(own.known)) {
      into.edit().join(*own.known.get());
    }
  }
  into.edit().set(block.number, thread, own.epoch);
  own.epoch = epochs_->begin(block.number, thread);
}

void Clocks::acquire(ThreadClock& own, const Shared<Clock>& from) { join(own.known, from); }

void Clocks::meet(const std::vector<Members>& members) {
  Shared<Clock> all;
  const Clock* last = nullptr;
  for (const Members& some : members) {
    for (int32_t thread = some.first; thread < some.first + some.count; ++thread) {
      const Shared<Clock>& known = some.block->threads[static_cast<std::size_t>(thread)].known;
      if (known.empty() || known.get() == last) continue;
      last = known.get();
      if (all.empty()) {
        all = known;
      } else {
        all.edit().join(*last);
      }
    }
  }
  Clock& clock = all.edit();
  for (const Members& some : members) {
    const int64_t number = some.block->number;
    if (some.are_all()) {
      clock.set_all(number, epochs_->next() - 1);
      continue;
    }
    clock.set_each(number, some.first, some.count,
                   &some.block->threads[static_cast<std::size_t>(some.first)]);
  }
  for (const Members& some : members) go_on(some, all);
}

// Members that have met begin their next epochs.
void Clocks::go_on(const Members& members, const Shared<Clock>& all) {
  InstrumentedBlock& block = *members.block;
  uint64_t epoch = epochs_->begin(block.number, members.first, members.count);
  if (block.is_alone && members.are_all()) {
    block.met = epoch;
    block.common = all;
    block.is_isolated = all.get()->is_of(block.number);
  }
  ThreadClock* own = &block.threads[static_cast<std::size_t>(members.first)];
  for (int32_t left = members.count; left > 0; --left, ++own) {
    own->epoch = epoch++;
    own->known = all;
  }
}

void Clocks::fence(InstrumentedBlock& block, int32_t thread) {
  ThreadClock& own = block.threads[static_cast<std::size_t>(thread)];
  join(own.known, own.pending);
  own.pending = {};
  own.released = {};
  release(block, thread, own.released);
}

void Clocks::proxy_fence(InstrumentedBlock& block, int32_t thread, int64_t proxy) {
  ThreadClock& own = block.threads[static_cast<std::size_t>(thread)];
  Clock& known = own.known.edit();
  known.set(block.number, thread, own.epoch);
  own.epoch = epochs_->begin(block.number, thread);
  known.show_to_copies(proxy);
}

}  // namespace weft
