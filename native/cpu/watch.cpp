// SPDX-License-Identifier: Apache-2.0
//
// Accesses, one after the other, against what is noted of their memory.
#include "cpu/watch.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "cpu/order.h"
#include "ffi_library.h"
#include "runtime/failure.h"

namespace weft {
namespace {

// The "block" of copies that report to the phases of mbarriers; its threads are numbers of places.
constexpr int64_t kPhases = int64_t{1} << 40;
constexpr int32_t kBeside =
    WEFT_ACCESS_ELEMENTS | WEFT_ACCESS_PHASE | WEFT_ACCESS_STORE | WEFT_ACCESS_PRODUCT;

// Whether the error of this thread is a signal handler's, which is kept.
bool raised_by_signal() {
  TVMFFIObjectHandle raised = nullptr;
  ffi().error_move_from_raised(&raised);
  if (raised == nullptr) return false;
  const auto* cell = reinterpret_cast<const TVMFFIErrorCell*>(static_cast<const TVMFFIObject*>(raised) + 1);
  const bool is_signal = std::string(cell->kind.data, cell->kind.size) == "EnvErrorAlreadySet";
  if (is_signal) ffi().error_set_raised(raised);
  ffi().object_dec_ref(raised);
  return is_signal;
}

const char* verb(const std::string& access) {
  if (access == "read") return "reads";
  return access == "written" ? "writes" : "updates";
}

}  // namespace

Watch::Watch(weft_cpu_launch* launch, int64_t together, const int64_t* cluster)
    : launch_(launch),
      together_(together),
      cluster_{cluster[0], cluster[1], cluster[2]},
      threads_(launch->block[0] * launch->block[1] * launch->block[2]) {}

int64_t Watch::group_of(int64_t block) const {
  const int64_t together = together_ & 3;
  if (together == WEFT_TOGETHER_BLOCK) return block;
  if (together == WEFT_TOGETHER_GRID) return 0;
  const int32_t* grid = launch_->grid;
  const int64_t x = block % grid[0] / cluster_[0];
  const int64_t y = block / grid[0] % grid[1] / cluster_[1];
  const int64_t z = block / grid[0] / grid[1] / cluster_[2];
  return x + grid[0] * (y + grid[1] * z);
}

WatchedBlock& Watch::block(int64_t number) {
  if (recent_ != nullptr && recent_->number == number) return *recent_;
  std::unique_ptr<WatchedBlock>& found = blocks_[number];
  if (found == nullptr) {
    auto made = std::make_unique<WatchedBlock>();
    made->number = number;
    made->threads.resize(at(threads_));
    // Blocks of other groups have ended: nothing asks for their clocks again.
    if (recent_ != nullptr && group_of(recent_->number) != group_of(number)) blocks_.clear();
    recent_ = made.get();
    blocks_[number] = std::move(made);
    return *recent_;
  }
  recent_ = found.get();
  return *recent_;
}

MeetingPlace& Watch::place_at(int64_t block, const void* word) {
  MeetingPlace& place = places_[word];
  const int64_t group = group_of(block);
  const uint64_t parity = *static_cast<const uint64_t*>(word) >> 63;
  if (place.group != group) {
    if (place.group < 0) {
      place.number = static_cast<int32_t>(numbered_places_.size());
      numbered_places_.push_back(&place);
    }
    place = {place.number, group, parity, place.phases, place.phases, {}, {}};
  }
  if (place.parity != parity) {
    // Every phase needs an arrival, of which this is told: so at most one has ended since.
    place.parity = parity;
    ++place.phases;
    if (!place.arriving.empty()) place.done.edit().join(*place.arriving.get());
    place.arriving = {};
    place.done.edit().set(kPhases, place.number, place.phases);
  }
  return place;
}

Record Watch::record_of(const weft_check_site& site, uint64_t who, uint32_t epoch) {
  if (first_site_ == nullptr) first_site_ = &site;
  const auto distance =
      reinterpret_cast<const int64_t*>(&site) - reinterpret_cast<const int64_t*>(first_site_);
  return {who, epoch, static_cast<int32_t>(distance)};
}

const weft_check_site& Watch::site_of(const Record& record) const {
  const auto* place = reinterpret_cast<const int64_t*>(first_site_) + record.site;
  return *reinterpret_cast<const weft_check_site*>(place);
}

bool Watch::is_copy(const Record& record) const {
  return record.block() == kPhases || record.thread() >= threads_;
}

// Whether a record of shared memory is of a block that has ended.
bool Watch::is_stale(const Record& record, const Access& access) const {
  if (record.block() == access.block.number) return false;
  const int64_t group = group_of(access.block.number);
  if (record.block() != kPhases) return group_of(record.block()) != group;
  const MeetingPlace& place = *numbered_places_[at(record.thread())];
  return place.group != group || record.epoch <= place.first;
}

bool Watch::is_past(const Record& record, const Access& access) const {
  if (record.who == Record::name(access.block.number, access.thread)) return true;
  const ThreadClock& own = access.block.threads[at(access.thread)];
  return clocks_.knows(own, record.block(), record.thread(), record.epoch);
}

// Whether two accesses may come at the same time: both are atomic for both blocks, or one waits for the
// other.
bool Watch::is_together(const Record& record, const weft_check_site& site, int64_t block) const {
  const weft_check_site& other = site_of(record);
  const int32_t either = other.flags | site.flags;
  if ((either & WEFT_ACCESS_AWAITED) != 0 && (either & kBeside) == 0) return true;
  if ((other.flags & site.flags & WEFT_ACCESS_ATOMIC) == 0) return false;
  return (either & WEFT_ACCESS_BLOCK) == 0 || record.block() == block;
}

void Watch::see(int32_t kind, const Record& other) {
  if (seen_.kind < 0) seen_ = {kind, other, nullptr, 0};
}

// Whether an access and an earlier one, of which one writes, are in order or of no interest.
bool Watch::check_other(const Record& other, const Access& access) {
  const bool is_asynchronous = access.is_copy || is_copy(other);
  const int32_t wanted = is_asynchronous ? WEFT_ACCESS_ASYNC : WEFT_ACCESS_RACES;
  if ((access.site.flags & wanted) == 0) return true;
  if (is_past(other, access)) {
    // A copy beside the threads sees what they wrote only after a fence.
    const int32_t flags = access.site.flags;
    const bool needs_fence = (flags & (WEFT_ACCESS_STORE | WEFT_ACCESS_PRODUCT)) != 0 &&
                             (flags & WEFT_ACCESS_SHARED) != 0 &&
                             (site_of(other).flags & WEFT_ACCESS_WRITES) != 0 && other.block() != kPhases;
    if (!needs_fence) return true;
    const ThreadClock& own = access.block.threads[at(access.thread)];
    if (clocks_.knows(own, other.block() + Clock::kProxy, other.thread(), other.epoch)) return true;
    see(WEFT_CHECK_asynchrony, other);
    return false;
  }
  if (is_together(other, access.site, access.block.number)) return true;
  see(is_asynchronous ? WEFT_CHECK_asynchrony : WEFT_CHECK_race, other);
  return false;
}

// Of two plain writes that race the second may write what is there already: that shows when it is done.
void Watch::doubt(const Access& access) {
  if (seen_.kind != WEFT_CHECK_race || (together_ & WEFT_LAUNCH_SAME_VALUES) != 0) return;
  const int32_t bits = WEFT_ACCESS_READS | WEFT_ACCESS_WRITES | WEFT_ACCESS_ATOMIC;
  const bool both = (access.site.flags & bits) == WEFT_ACCESS_WRITES &&
                    (site_of(seen_.other).flags & bits) == WEFT_ACCESS_WRITES;
  if (both) seen_.bytes = access.site.bytes;
}

void Watch::check_cell(Cell& cell, const Access& access) {
  const int32_t flags = access.site.flags;
  if ((flags & WEFT_ACCESS_SHARED) != 0) {
    if (cell.any().who != 0 && is_stale(cell.any(), access)) cell = {};
  }
  const bool has_beginning = (flags & (WEFT_ACCESS_SHARED | WEFT_ACCESS_LOCAL)) != 0;
  if ((flags & WEFT_ACCESS_READS) != 0 && (flags & WEFT_ACCESS_UNINIT) != 0 && has_beginning &&
      !cell.is_written()) {
    see(WEFT_CHECK_uninitialized, {});
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
    cell = {access.record, {}, {}};
  } else {
    cell.add_read(access.record, [&](const Record& read) { return is_past(read, access); });
  }
}

// Atomics and fences: what a thread lets others learn through an element, and learns through it.
void Watch::order_atomics(const Access& access, const void* address) {
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

int32_t Watch::check_range(const Access& access, const void* address, int64_t bytes) {
  if (settle()) return 1;
  seen_ = {};
  const char* place = static_cast<const char*>(address);
  for (int64_t done = 0; done < bytes; done += access.site.bytes) {
    shadow_.for_each(place + done, access.site.bytes, [&](Cell& cell) { check_cell(cell, access); });
    if (seen_.bytes != 0 && seen_.address == nullptr) {
      seen_.address = place + done;
      seen_.bytes = bytes - done;
    }
  }
  const int32_t orders = WEFT_ACCESS_ATOMIC | WEFT_ACCESS_AWAITED | WEFT_ACCESS_PUBLISHES;
  if (!access.is_copy && (access.site.flags & orders) != 0) order_atomics(access, address);
  return seen_.kind >= 0 ? 1 : 0;
}

int32_t Watch::access(const weft_check_site& site, int64_t block, int64_t thread,
                      const void* address) noexcept {
  return safely([&] {
    WatchedBlock& own = this->block(block);
    const auto number = static_cast<int32_t>(thread);
    const Record record = record_of(site, Record::name(block, number), own.threads[at(thread)].epoch);
    return check_range({site, own, number, record, false}, address, int64_t{site.count} * site.bytes);
  });
}

int32_t Watch::copy(const weft_check_site& site, int64_t block, int64_t thread, const void* address,
                    int64_t bytes, const void* word) noexcept {
  return safely([&] {
    WatchedBlock& own = this->block(block);
    for (auto* counts : {&own.groups, &own.stores, &own.products}) counts->resize(at(threads_));
    const auto number = static_cast<int32_t>(thread);
    Record record;
    // One thread speaks for its warpgroup.
    if ((site.flags & WEFT_ACCESS_PRODUCT) != 0 && number % 128 != 0) return 0;
    if ((site.flags & WEFT_ACCESS_PHASE) != 0) {
      const MeetingPlace& place = place_at(block, word);
      record = record_of(site, Record::name(kPhases, place.number), place.phases + 1);
    } else if ((site.flags & WEFT_ACCESS_ELEMENTS) != 0) {
      record = record_of(site, Record::name(block, threads_ + number), own.groups[at(thread)] + 1);
    } else if ((site.flags & WEFT_ACCESS_STORE) != 0) {
      record = record_of(site, Record::name(block, 2 * threads_ + number), ++own.stores[at(thread)]);
    } else {
      record =
          record_of(site, Record::name(block, 3 * threads_ + number / 128), own.products[at(thread)] + 1);
    }
    return check_range({site, own, number, record, true}, address, bytes);
  });
}

void Watch::event(int32_t event, int64_t block, int64_t thread, const void* address, int64_t bytes) noexcept {
  safely([&] {
    WatchedBlock& own = this->block(block);
    for (auto* counts : {&own.groups, &own.stores, &own.products}) counts->resize(at(threads_));
    ThreadClock& clock = own.threads[at(thread)];
    const auto number = static_cast<int32_t>(thread);
    const auto complete = [&](int32_t beside, int64_t begun) {
      if (begun > bytes) clock.known.edit().set(block, beside, static_cast<uint32_t>(begun - bytes));
    };
    switch (event) {
      case WEFT_EVENT_FENCE:
        clocks_.fence(own, number);
        break;
      case WEFT_EVENT_ARRIVE:
        clocks_.release(own, number, place_at(block, address).arriving);
        break;
      case WEFT_EVENT_WAIT:
        clocks_.acquire(clock, place_at(block, address).done);
        break;
      case WEFT_EVENT_DECLARE:
        shadow_.forget(address, bytes);
        break;
      case WEFT_EVENT_PROXY_FENCE:
        clocks_.proxy_fence(own, number);
        break;
      case WEFT_EVENT_COMMIT:
        ++own.groups[at(thread)];
        break;
      case WEFT_EVENT_ELEMENTS:
        complete(threads_ + number, own.groups[at(thread)]);
        break;
      case WEFT_EVENT_STORES:
        complete(2 * threads_ + number, own.stores[at(thread)]);
        break;
      case WEFT_EVENT_PRODUCT:
        ++own.products[at(thread)];
        break;
      case WEFT_EVENT_PRODUCTS:
        complete(3 * threads_ + number / 128, own.products[at(thread)]);
        break;
      default:
        break;
    }
    return 0;
  });
}

// Decides about writes that may have changed nothing, which are done by now; whether the launch ends.
bool Watch::settle_doubts() {
  std::vector<Doubt> doubts = std::move(doubts_);
  doubts_.clear();
  for (Doubt& doubt : doubts) {
    if (std::memcmp(doubt.address, doubt.before.data(), doubt.before.size()) == 0) continue;
    if (!add(std::move(doubt.report))) return true;
  }
  return is_ended_;
}

bool Watch::add(Report report) {
  const bool continues = (together_ & WEFT_LAUNCH_CONTINUES) != 0;
  if (is_ended_) return false;
  auto found =
      std::find_if(reports_.begin(), reports_.end(), [&](const Report& one) { return one.equals(report); });
  if (found != reports_.end()) {
    ++found->count;
  } else {
    reports_.push_back(std::move(report));
  }
  if (!continues) {
    is_ended_ = true;
    launch_->failed = 1;
  }
  return continues;
}

// The sentence and the other place of what was seen at an access.
void Watch::complete(const Access& access, const int64_t* values, Report& report) const {
  const weft_check_site& site = access.site;
  // Of a copy the array alone is told.
  const std::string array = site.rank == 0 && access.is_copy ? site.array : elements_text(site, values);
  const std::string done = array + (site.count == 1 ? " is " : " are ") + site.access;
  report.kind = seen_.kind;
  if (seen_.kind == WEFT_CHECK_uninitialized) {
    report.said = done + (site.count == 1 ? ", and no thread has written it"
                                          : ", and no thread has written all of them");
    return;
  }
  const Record& other = seen_.other;
  const weft_check_site& there = site_of(other);
  const bool is_phase = other.block() == kPhases;
  const int64_t block = is_phase ? access.block.number : other.block();
  const int64_t thread = is_phase ? access.thread : other.thread() % threads_;
  report.other = place_of(there, triple_of(block, launch_->grid), triple_of(thread, launch_->block));
  const std::string it = std::string(" ") + verb(there.access) + " it";
  const bool is_product = (there.flags & WEFT_ACCESS_PRODUCT) != 0;
  std::string who = "thread " + triple_text(report.other.thread);
  if (block != access.block.number) who += " of block " + triple_text(report.other.block);
  if (is_copy(other)) who = is_product ? "a product" : "a copy";
  const std::string by = (site.flags & WEFT_ACCESS_PRODUCT) != 0 ? " by a product"
                         : access.is_copy                        ? " by a copy"
                                                                 : "";
  if (seen_.kind == WEFT_CHECK_race) {
    report.said = done + ", and " + who + it + ": nothing orders the two";
  } else if (is_copy(other)) {
    report.said = done + by + " while " + who + it + ": nothing waits for its end";
  } else if (is_past(other, access)) {
    report.said = done + by + " after " + who + " wrote it, without a weft.fence_proxy in between";
  } else {
    report.said = done + by + ", and " + who + it + ": nothing orders the two";
  }
}

int32_t Watch::found(const weft_check_site& site, int64_t block, int64_t thread,
                     const int64_t* values) noexcept {
  return safely([&] {
    if (is_ended_) return 1;
    Report report =
        report_of(site, triple_of(block, launch_->grid), triple_of(thread, launch_->block), values);
    if (site.flags == 0) return add(std::move(report)) ? 0 : 1;
    if (seen_.kind < 0) return 0;
    const bool is_beside = (site.flags & kBeside) != 0;
    complete({site, this->block(block), static_cast<int32_t>(thread), {}, is_beside}, values, report);
    if (seen_.address != nullptr) {
      const bool is_shared = (site.flags & WEFT_ACCESS_SHARED) != 0;
      doubts_.push_back(
          {std::move(report), seen_.address, std::string(seen_.address, at(seen_.bytes)), is_shared});
      return 0;
    }
    return add(std::move(report)) ? 0 : 1;
  });
}

// Who wrote last where a test asks for it.
void Watch::answer() {
  WriterQuestion& question = writer_question();
  if (question.address == nullptr) return;
  shadow_.for_each(question.address, 1, [&](const Cell& cell) {
    const Record& writer = cell.write.who != 0 ? cell.write : cell.atomic;
    if (writer.who == 0 || is_copy(writer)) return;
    const Triple block = triple_of(writer.block(), launch_->grid);
    const Triple thread = triple_of(writer.thread(), launch_->block);
    std::copy(block.begin(), block.end(), question.block);
    std::copy(thread.begin(), thread.end(), question.thread);
    question.places = site_of(writer).places;
    question.is_answered = true;
  });
}

int32_t Watch::finish(int32_t code) noexcept {
  safely([&] {
    answer();
    return 0;
  });
  // Shared memory is gone: what is not read after the last block is of no interest.
  const auto is_gone = [](const Doubt& doubt) { return doubt.is_shared; };
  doubts_.erase(std::remove_if(doubts_.begin(), doubts_.end(), is_gone), doubts_.end());
  safely([&] { return settle() ? 1 : 0; });
  if (has_no_memory_) return raise_error("MemoryError", "no memory to watch a launch");
  if (reports_.empty() || (code != 0 && !is_ended_ && raised_by_signal())) return code;
  return safely([&] {
           raise_reports(launch_->kernel_name, reports_);
           return 0;
         }) == 0
             ? -1
             : raise_error("MemoryError", "no memory to describe an error");
}

Triple triple_of(int64_t linear, const int32_t* sizes) {
  return {linear % sizes[0], linear / sizes[0] % sizes[1], linear / sizes[0] / sizes[1]};
}

int32_t sanitizer_fail(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const int64_t* values) {
  if (launch->watch != nullptr) return watch_of(launch)->found(*site, block, thread, values);
  __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);  // blocks on other threads stop when they see it
  try {
    const Triple index = triple_of(block, launch->grid);
    raise_reports(launch->kernel_name, {report_of(*site, index, triple_of(thread, launch->block), values)});
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
  return 1;
}

int32_t sanitizer_access(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                         const void* address) {
  return watch_of(launch)->access(*site, block, thread, address);
}

int32_t sanitizer_copy(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const void* address, int64_t bytes, const void* word) {
  return watch_of(launch)->copy(*site, block, thread, address, bytes, word);
}

void sanitizer_event(weft_cpu_launch* launch, int32_t event, int64_t block, int64_t thread,
                     const void* address, int64_t bytes) {
  watch_of(launch)->event(event, block, thread, address, bytes);
}

}  // namespace weft
