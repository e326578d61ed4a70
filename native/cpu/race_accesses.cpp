// SPDX-License-Identifier: Apache-2.0
//
// Checks each access against the records of its memory.
#include <algorithm>
#include <cstring>
#include <new>

#include "cpu/boxes.h"
#include "cpu/race_detector.h"

namespace weft {
namespace {

constexpr int32_t kAsync = WEFT_ACCESS_ELEMENTS | WEFT_ACCESS_PHASE | WEFT_ACCESS_STORE | WEFT_ACCESS_MMA;

}  // namespace

Record RaceDetector::record_of(const weft_check_site& site, uint64_t epoch) {
  if (first_site_ == nullptr) first_site_ = &site;
  return record_at(site, epoch);
}

bool RaceDetector::knows(const ThreadClock& own, const Record& record, int64_t beyond) const {
  if (own.known.empty()) return false;
  const Owner owner = owner_of(record);
  const Clock& known = *own.known.get();
  if (!Epochs::is_async(record.epoch())) {
    return known.at(owner.block + beyond, owner.thread) >= record.epoch();
  }
  return known.at(owner.block + Clock::kAsync + beyond, owner.thread) >= owner.count;
}

// Whether a record of shared memory is of a block that has ended.
bool RaceDetector::is_stale(const Record& record, const Access& access) const {
  const uint64_t epoch = record.epoch();
  if (access.block.is_alone && !Epochs::is_async(epoch)) return epoch < access.block.first;
  const Owner owner = owner_of(record);
  if (owner.block == access.block.number) return false;
  const int64_t group = group_of(access.block.number);
  if (owner.block != kPhases) return group_of(owner.block) != group;
  const RendezvousPoint& place = *numbered_places_[at(owner.thread)];
  return place.group != group || owner.count <= place.first;
}

// Whether what was done in an epoch comes before the access, or is the same thread's.
bool RaceDetector::is_past(const Record& record, const Access& access) const {
  const uint64_t epoch = record.epoch();
  const InstrumentedBlock& block = access.block;
  const ThreadClock& own = access.clock();
  if (epoch == own.epoch) return true;
  if (!Epochs::is_async(epoch)) {
    if (epoch - block.first < block.met - block.first) return true;
    if (block.is_alone && block.is_isolated && own.known.is(block.common)) {
      // It has learned nothing since, and knows no other block.
      if (epoch < block.first || own.epoch == block.met + static_cast<uint64_t>(access.thread)) return false;
    }
    const Owner owner = owner_of(record);
    const bool is_own = owner.block == block.number && owner.thread == access.thread;
    if (is_own && (own.iterations == 0 || epoch < own.iterations)) return true;
  }
  return knows(own, record, 0);
}

// The same for a read that the access may take the place of, which may be a copy's as well.
bool RaceDetector::is_before(const Record& record, const Access& access) const {
  if (access.is_copy) {
    const Owner owner = owner_of(record), own = owner_of(access.record);
    if (owner.block == own.block && owner.thread == own.thread) return true;
  }
  return is_past(record, access);
}

// Whether two accesses may come at the same time: both are atomic for both blocks, or one waits for the
// other.
bool RaceDetector::is_coresident(const Record& record, const weft_check_site& site, int64_t block) const {
  const weft_check_site& other = site_of(record);
  const int32_t either = other.flags | site.flags;
  if ((either & WEFT_ACCESS_AWAITED) != 0 && (either & kAsync) == 0) return true;
  if ((other.flags & site.flags & WEFT_ACCESS_ATOMIC) == 0) return false;
  return (either & WEFT_ACCESS_BLOCK) == 0 || owner_of(record).block == block;
}

void RaceDetector::see(int32_t kind, const Record& other) {
  // A race says more than that other elements are unwritten.
  const bool says_more = seen_.kind == WEFT_CHECK_uninitialized && kind != WEFT_CHECK_uninitialized;
  if (seen_.kind < 0 || says_more) seen_ = {kind, other};
}

// Whether an access and an earlier one, one of them a write, are ordered or irrelevant.
bool RaceDetector::check_other(const Record& other, const Access& access) {
  const bool is_asynchronous = access.is_copy || Epochs::is_async(other.epoch());
  const int32_t wanted = is_asynchronous ? WEFT_ACCESS_ASYNC : WEFT_ACCESS_RACES;
  if ((access.site.flags & wanted) == 0) return true;
  if (is_past(other, access)) {
    // An asynchronous copy sees what they wrote only after a fence; what copies wrote is there for it.
    const int32_t flags = access.site.flags, others = site_of(other).flags;
    const bool is_shared = (flags & WEFT_ACCESS_SHARED) != 0;
    const int32_t async = WEFT_ACCESS_STORE | (is_shared ? WEFT_ACCESS_MMA : WEFT_ACCESS_PHASE);
    const bool needs_fence = (flags & async) != 0 && (others & WEFT_ACCESS_WRITES) != 0 &&
                             (others & (WEFT_ACCESS_STORE | WEFT_ACCESS_PHASE)) == 0;
    if (!needs_fence || knows(access.clock(), other, is_shared ? Clock::kProxy : Clock::kGlobalProxy))
      return true;
    see(WEFT_CHECK_asynchrony, other);
    return false;
  }
  if (is_coresident(other, access.site, access.block.number)) return true;
  see(is_asynchronous ? WEFT_CHECK_asynchrony : WEFT_CHECK_race, other);
  return false;
}

// Of two plain writes that race the second may write the value already there, which shows once it is done.
void RaceDetector::doubt(const Access& access) {
  if (seen_.kind != WEFT_CHECK_race || (coresident_ & WEFT_LAUNCH_SAME_VALUES) != 0) return;
  const int32_t bits = WEFT_ACCESS_READS | WEFT_ACCESS_WRITES | WEFT_ACCESS_ATOMIC;
  const bool both = (access.site.flags & bits) == WEFT_ACCESS_WRITES &&
                    (site_of(seen_.other).flags & bits) == WEFT_ACCESS_WRITES;
  if (both) seen_.bytes = access.site.bytes;
}

void RaceDetector::check_cell(Cell& cell, const Access& access) {
  History history = shadow_->history(cell);
  check_history(history, access);
  shadow_->set_history(cell, history);
}

void RaceDetector::check_history(History& cell, const Access& access) {
  const int32_t flags = access.site.flags;
  if ((flags & WEFT_ACCESS_SHARED) != 0) {
    if (cell.any().bits != 0 && is_stale(cell.any(), access)) cell = {};
  }
  const bool has_beginning = (flags & (WEFT_ACCESS_SHARED | WEFT_ACCESS_LOCAL)) != 0;
  if ((flags & WEFT_ACCESS_READS) != 0 && (flags & WEFT_ACCESS_UNINIT) != 0 && has_beginning &&
      !cell.is_written()) {
    is_unwritten_ = true;
    see(WEFT_CHECK_uninitialized, access.record);
  }
  if ((flags & WEFT_ACCESS_READS) != 0 && (flags & WEFT_ACCESS_UNINIT) != 0) {
    const Record& last = cell.atomic.bits != 0 ? cell.atomic : cell.write;
    if (is_overwritten(last, access.site)) {
      is_unwritten_ = true;
      const bool is_first = seen_.kind < 0;
      see(WEFT_CHECK_uninitialized, access.record);
      if (is_first) seen_.overwritten = last;
    }
  }
  if ((flags & WEFT_ACCESS_LOCAL) == 0) {
    const bool is_first = seen_.kind < 0;
    if (check_record(cell.write, access) && check_record(cell.atomic, access) &&
        (flags & WEFT_ACCESS_WRITES) != 0) {
      for (const Record& read : cell.reads) {
        if (!check_record(read, access)) break;
      }
    }
    if (is_first) doubt(access);
  }
  if ((flags & WEFT_ACCESS_WRITES) != 0 && (flags & WEFT_ACCESS_ATOMIC) != 0) {
    cell.atomic = access.record;
  } else if ((flags & WEFT_ACCESS_WRITES) != 0) {
    cell = {};
    cell.write = access.record;
  } else {
    cell.add_read(access.record, [&](const Record& read) { return is_before(read, access); });
  }
}

// Atomics and fences: how threads release and acquire through an element.
void RaceDetector::order_atomics(const Access& access, const void* address) {
  const int32_t flags = access.site.flags;
  ThreadClock& own = access.block.threads[at(access.thread)];
  if ((flags & WEFT_ACCESS_READS) != 0 && !atomics_.empty()) {
    const auto found = atomics_.find(address);
    if (found != atomics_.end()) {
      clocks_.acquire(own, (flags & WEFT_ACCESS_ACQUIRES) != 0 ? found->second : Shared<Clock>());
      if (own.pending.empty()) {
        own.pending = found->second;
      } else if (!own.pending.is(found->second)) {
        own.pending.edit().join(*found->second.get());
      }
    }
  }
  if ((flags & WEFT_ACCESS_WRITES) == 0) return;
  if ((flags & WEFT_ACCESS_RELEASES) != 0) {
    clocks_.release(access.block, access.thread, atomics_[address]);
  } else if (!own.released.empty()) {
    Shared<Clock>& into = atomics_[address];
    if (into.empty()) {
      into = own.released;
    } else if (!into.is(own.released)) {
      into.edit().join(*own.released.get());
    }
  }
}

bool RaceDetector::pass_scratch(int32_t flags, const char* address, int64_t bytes) {
  HostScratch& array = recent_scratch_;
  if (address < array.begin || address >= array.begin + array.bytes) {
    const HostScratch found = find_host_scratch(scratch_, tensors_, address);
    if (found.begin == nullptr) return true;
    if (found.written == nullptr) return false;
    array = found;
  }
  const int64_t offset = address - array.begin;
  const std::size_t count = at(std::min(bytes, array.bytes - offset));
  uint8_t* written = array.written + offset;
  if ((flags & WEFT_ACCESS_READS) != 0 && std::memchr(written, 0, count) != nullptr) return false;
  if ((flags & WEFT_ACCESS_WRITES) != 0) std::memset(written, 1, count);
  return true;
}

void RaceDetector::check_scratch(const Access& access, const char* address, int64_t bytes) {
  if (pass_scratch(access.site.flags, address, bytes)) return;
  const HostScratch array = find_host_scratch(scratch_, tensors_, address);
  if (array.written == nullptr) throw std::bad_alloc();
  see(WEFT_CHECK_uninitialized, access.record);
  for (int64_t byte = 0; byte < bytes && !continues(); ++byte) {
    if (array.written[address + byte - array.begin] == 0) const_cast<char*>(address)[byte] = 0;
  }
  pass_scratch(access.site.flags & ~WEFT_ACCESS_READS, address, bytes);
}

int32_t RaceDetector::check_range(const Access& access, const void* address, int64_t bytes) {
  if (settle()) return 1;
  seen_ = {};
  const char* place = static_cast<const char*>(address);
  if (!memories_.empty() && (access.site.flags & WEFT_ACCESS_SHARED) != 0) check_lifetime(access, place);
  if ((access.site.flags & WEFT_ACCESS_SCRATCH) != 0) check_scratch(access, place, bytes);
  for (int64_t done = 0; done < bytes; done += access.site.bytes) {
    is_unwritten_ = false;
    shadow_->for_each(place + done, access.site.bytes, [&](Cell& cell) { check_cell(cell, access); });
    if (seen_.bytes != 0 && seen_.address == nullptr) {
      seen_.address = place + done;
      seen_.bytes = bytes - done;
    }
    // The thread goes on for a while, so it reads zeros rather than garbage.
    if (is_unwritten_ && !continues()) std::memset(const_cast<char*>(place) + done, 0, at(access.site.bytes));
  }
  seen_.begin = place;
  seen_.length = bytes;
  if (!access.is_copy && (access.site.flags & kOrders) != 0) order_atomics(access, address);
  return seen_.kind >= 0 || seen_.memory != nullptr ? 1 : 0;
}

int32_t RaceDetector::access(const weft_check_site& site, int64_t block, int64_t thread,
                             const void* address) noexcept {
  return safely([&] {
    InstrumentedBlock& own = this->block(block);
    const auto number = static_cast<int32_t>(thread);
    const Record record = record_of(site, own.threads[at(thread)].epoch);
    const int32_t found =
        check_range({site, own, number, record, false}, address, int64_t{site.count} * site.bytes);
    begin_quick();
    return found;
  });
}

// An asynchronous operation begins: in an epoch of its own, which ends when one waits for it.
Record RaceDetector::begin_copy(const weft_check_site& site, InstrumentedBlock& own, int32_t thread,
                                const void* word) {
  for (auto* counts : {&own.groups, &own.stores, &own.wgmmas}) counts->resize(at(threads_));
  const auto async = [&](int64_t owner, int32_t who, uint32_t count) {
    return record_of(site, epochs_.begin_async({owner, who, count}));
  };
  if ((site.flags & WEFT_ACCESS_PHASE) != 0) {
    const RendezvousPoint& place = place_at(own.number, word);
    return async(kPhases, place.number, place.phases + 1);
  }
  if ((site.flags & WEFT_ACCESS_ELEMENTS) != 0)
    return async(own.number, threads_ + thread, own.groups[at(thread)] + 1);
  if ((site.flags & WEFT_ACCESS_STORE) != 0) {
    // Its reads are complete before its writes.
    const int32_t part = (site.flags & WEFT_ACCESS_WRITES) != 0 ? 4 : 2;
    return async(own.number, part * threads_ + thread, own.stores[at(thread)] + 1);
  }
  return async(own.number, 3 * threads_ + thread / 128, own.wgmmas[at(thread)] + 1);
}

int32_t RaceDetector::copy(const weft_check_site& site, int64_t block, int64_t thread, const void* address,
                           int64_t bytes, const void* word) noexcept {
  return safely([&] {
    InstrumentedBlock& own = this->block(block);
    const auto number = static_cast<int32_t>(thread);
    // One thread speaks for its warpgroup.
    if ((site.flags & WEFT_ACCESS_MMA) != 0 && number % 128 != 0) return 0;
    const Record record = begin_copy(site, own, number, word);
    return check_range({site, own, number, record, true}, address, bytes);
  });
}

int32_t RaceDetector::copy_box(const weft_check_site& site, int64_t block, int64_t thread,
                               const weft_cpu_tensor_map& map, const weft_tma_tile& tile,
                               const int32_t* indices, const void* word) noexcept {
  return safely([&] {
    InstrumentedBlock& own = this->block(block);
    const auto number = static_cast<int32_t>(thread);
    const Access access{site, own, number, begin_copy(site, own, number, word), true};
    const int64_t first = indices[map.rank - 1], length = map.sizes[map.rank - 1];
    int32_t found = 0;
    visit_rows(map, tile, indices, [&](char* row, bool is_inside, int64_t, int64_t elements) {
      const int64_t begin = std::clamp<int64_t>(first, 0, length);
      const int64_t count = std::clamp<int64_t>(first + elements, begin, length) - begin;
      if (!is_inside || count == 0 || found != 0) return;
      found = check_range(access, row + begin * map.element_bytes, count * map.element_bytes);
    });
    return found;
  });
}

}  // namespace weft
