// SPDX-License-Identifier: Apache-2.0
//
// Checks each access against the records of its memory.
#include "cpu/race_detector.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "cpu/order.h"
#include "ffi_library.h"
#include "runtime/failure.h"

namespace weft {
namespace {

constexpr int32_t kAsync = WEFT_ACCESS_ELEMENTS | WEFT_ACCESS_PHASE | WEFT_ACCESS_STORE | WEFT_ACCESS_MMA;

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

// Whether a finding may come of unwritten memory that was read before.
bool may_follow(int32_t kind) {
  return kind != WEFT_CHECK_race && kind != WEFT_CHECK_asynchrony && kind != WEFT_CHECK_lifetime &&
         kind != WEFT_CHECK_uninitialized;
}

const char* verb(const std::string& access) {
  if (access == "read") return "reads";
  return access == "written" ? "writes" : "updates";
}

}  // namespace

RaceDetector::RaceDetector(weft_cpu_launch* launch, int64_t coresidency, const int64_t* cluster,
                           const weft_call_frame* owner)
    : launch_(launch),
      coresident_(coresidency),
      scratch_(owner == nullptr ? nullptr : owner->scratch),
      tensors_(owner == nullptr ? nullptr : owner->tensors),
      cluster_{cluster[0], cluster[1], cluster[2]},
      threads_(launch->block[0] * launch->block[1] * launch->block[2]),
      shadow_(Shadow::take()),
      epochs_(shadow_ != nullptr ? shadow_->first_epoch() : 1,
              shadow_ != nullptr ? shadow_->first_async() : 1) {
  if (shadow_ != nullptr) return;
  has_no_memory_ = true;
  launch->failed = 1;
}

RaceDetector::~RaceDetector() { Shadow::give_back(std::move(shadow_), epochs_.next(), epochs_.next_async()); }

int64_t RaceDetector::group_of(int64_t block) const {
  const int64_t coresidency = coresident_ & 3;
  if (coresidency == WEFT_CORESIDENT_BLOCK) return block;
  if (coresidency == WEFT_CORESIDENT_GRID) return 0;
  const int32_t* grid = launch_->grid;
  const int64_t x = block % grid[0] / cluster_[0];
  const int64_t y = block / grid[0] % grid[1] / cluster_[1];
  const int64_t z = block / grid[0] / grid[1] / cluster_[2];
  return x + grid[0] * (y + grid[1] * z);
}

InstrumentedBlock& RaceDetector::block(int64_t number) {
  if (recent_ != nullptr && recent_->number == number) return *recent_;
  quick_ = {};
  std::unique_ptr<InstrumentedBlock>& found = blocks_[number];
  if (found == nullptr) {
    auto made = std::make_unique<InstrumentedBlock>();
    made->number = number;
    made->threads.resize(at(threads_));
    made->is_alone = (coresident_ & 3) == WEFT_CORESIDENT_BLOCK;
    clocks_.start(*made);
    // Blocks of other groups have ended: nothing asks for their clocks again.
    if (recent_ != nullptr && group_of(recent_->number) != group_of(number)) {
      blocks_.clear();
      settle_unwritten(kEvery);
    }
    recent_ = made.get();
    blocks_[number] = std::move(made);
    return *recent_;
  }
  recent_ = found.get();
  return *recent_;
}

void RaceDetector::begin_quick() {
  if (!is_quiet_ || recent_ == nullptr || first_site_ == nullptr) return;
  const InstrumentedBlock& own = *recent_;
  const auto bits = [](uint64_t epochs) { return epochs << Record::kSiteBits; };
  const uint64_t met = own.is_alone && own.is_isolated ? own.met : ~uint64_t{0};
  quick_ = {own.number,
            own.threads.data(),
            &own.common,
            met,
            bits(own.first),
            bits(own.met - own.first),
            bits(shadow_->first_epoch())};
  if (memories_.empty()) return;
  const auto is_own = [&](const Memory& memory) { return memory.block == own.number; };
  const auto found = std::find_if(memories_.begin(), memories_.end(), is_own);
  quick_.shared = shared_ + (found - memories_.begin()) * shared_bytes_;
  quick_.shared_bytes = static_cast<uint64_t>(shared_bytes_);
}

RendezvousPoint& RaceDetector::place_at(int64_t block, const void* word) {
  RendezvousPoint& place = places_[word];
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
    // Every phase needs an arrival, and each arrival comes here: so at most one has ended since.
    place.parity = parity;
    ++place.phases;
    if (!place.arriving.empty()) place.done.edit().join(*place.arriving.get());
    place.arriving = {};
    place.done.edit().set(kPhases + Clock::kAsync, place.number, place.phases);
  }
  return place;
}

const weft_check_site& RaceDetector::site_of(const Record& record) const {
  const auto* place = reinterpret_cast<const int64_t*>(first_site_) + record.site();
  return *reinterpret_cast<const weft_check_site*>(place);
}

void RaceDetector::event(int32_t event, int64_t block, int64_t thread, const void* address,
                         int64_t bytes) noexcept {
  if (event == WEFT_EVENT_RENDEZVOUS) {
    meet_threads(block, static_cast<int32_t>(thread), static_cast<int32_t>(bytes));
    return;
  }
  if (event == WEFT_EVENT_END) {
    safely([&] {
      note_end(*static_cast<const weft_check_site*>(address), block, thread);
      return 0;
    });
    return;
  }
  safely([&] {
    InstrumentedBlock& own = this->block(block);
    for (auto* counts : {&own.groups, &own.stores, &own.wgmmas}) counts->resize(at(threads_));
    ThreadClock& clock = own.threads[at(thread)];
    const auto number = static_cast<int32_t>(thread);
    const auto complete = [&](int32_t async, int64_t begun) {
      if (begun > bytes)
        clock.known.edit().set(block + Clock::kAsync, async, static_cast<uint64_t>(begun - bytes));
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
        shadow_->forget(address, bytes);
        break;
      case WEFT_EVENT_PROXY_FENCE:
        clocks_.proxy_fence(own, number, bytes == 0 ? Clock::kProxy : Clock::kGlobalProxy);
        break;
      case WEFT_EVENT_COMMIT:
        ++own.groups[at(thread)];
        break;
      case WEFT_EVENT_ELEMENTS:
        complete(threads_ + number, own.groups[at(thread)]);
        break;
      case WEFT_EVENT_STORES:
        complete(2 * threads_ + number, own.stores[at(thread)]);
        complete(4 * threads_ + number, own.stores[at(thread)]);
        break;
      case WEFT_EVENT_STORE:
        ++own.stores[at(thread)];
        break;
      case WEFT_EVENT_STORES_READ:
        complete(2 * threads_ + number, own.stores[at(thread)]);
        break;
      case WEFT_EVENT_WGMMA:
        ++own.wgmmas[at(thread)];
        break;
      case WEFT_EVENT_WGMMA_WAIT:
        complete(3 * threads_ + number / 128, own.wgmmas[at(thread)]);
        break;
      case WEFT_EVENT_ITERATION:
        clock.epoch = epochs_.begin(block, number);
        if (bytes == 0 || clock.iterations == 0) clock.iterations = bytes == 0 ? 0 : clock.epoch;
        break;
      default:
        break;
    }
    return 0;
  });
}

// Decides about writes that may have changed nothing, which are done by now; whether the launch ends.
bool RaceDetector::settle_doubts() {
  std::vector<Doubt> doubts = std::move(doubts_);
  doubts_.clear();
  for (Doubt& doubt : doubts) {
    if (std::memcmp(doubt.address, doubt.before.data(), doubt.before.size()) == 0) continue;
    if (!add(std::move(doubt.report))) return true;
  }
  is_quiet_ = !is_ended_;
  return is_ended_;
}

bool RaceDetector::add(Report report) {
  if (is_ended_) return false;
  if (!continues() && !unwritten_.empty() && may_follow(report.kind)) {
    report = std::move(unwritten_.front().report);
    unwritten_.clear();
  }
  auto found =
      std::find_if(reports_.begin(), reports_.end(), [&](const Report& one) { return one.equals(report); });
  if (found != reports_.end()) {
    ++found->count;
  } else {
    reports_.push_back(std::move(report));
  }
  if (!continues()) {
    is_ended_ = true;
    end_quick();
    launch_->failed = 1;
  }
  return continues();
}

// The sentence and the other place of what was seen at an access.
void RaceDetector::complete(const Access& access, const int64_t* values, Report& report) const {
  const weft_check_site& site = access.site;
  // A copy is reported by its array alone.
  const std::string array = site.rank == 0 && access.is_copy ? site.array : elements_text(site, values);
  const std::string done = array + (site.count == 1 ? " is " : " are ") + site.access;
  report.kind = seen_.kind;
  if (seen_.kind == WEFT_CHECK_uninitialized && seen_.overwritten.bits == 0) {
    report.said = done + (site.count == 1 ? ", and no thread has written it"
                                          : ", and no thread has written all of them");
    return;
  }
  const bool is_overwritten = seen_.kind == WEFT_CHECK_uninitialized;
  const Record& other = is_overwritten ? seen_.overwritten : seen_.other;
  const weft_check_site& there = site_of(other);
  const Owner owner = owner_of(other);
  const bool is_other_copy = Epochs::is_async(other.epoch());
  const bool is_phase = owner.block == kPhases;
  const int64_t block = is_phase ? access.block.number : owner.block;
  const int64_t thread = is_phase ? access.thread : owner.thread % threads_;
  report.other = make_report_place(there, triple_of(block, launch_->grid), triple_of(thread, launch_->block));
  const std::string it = std::string(" ") + verb(there.access) + " it";
  const bool is_mma = (there.flags & WEFT_ACCESS_MMA) != 0;
  std::string who = "thread " + triple_text(report.other.thread);
  if (block != access.block.number) who += " of block " + triple_text(report.other.block);
  const bool is_own = block == access.block.number && thread == access.thread;
  if (is_own && access.clock().iterations != 0) who = "another iteration of weft.each";
  if (is_other_copy) who = is_mma ? "a wgmma" : "a copy";
  const std::string by = (site.flags & WEFT_ACCESS_MMA) != 0 ? " by a wgmma"
                         : access.is_copy                    ? " by a copy"
                                                             : "";
  if (is_overwritten) {
    report.said = done + ", and its memory holds what " + who + " wrote to " + there.array +
                  ": the arrays reuse memory";
  } else if (seen_.kind == WEFT_CHECK_race) {
    report.said = done + ", and " + who + it + ": nothing orders the two";
  } else if (is_other_copy) {
    report.said = done + by + " while " + who + it + ": nothing waits for its end";
  } else if (is_past(other, access)) {
    report.said = done + by + " after " + who + " wrote it, without a weft.fence_proxy" +
                  ((site.flags & WEFT_ACCESS_SHARED) != 0 ? "" : "(space=\"global\")") + " in between";
  } else {
    report.said = done + by + ", and " + who + it + ": nothing orders the two";
  }
}

int32_t RaceDetector::found(const weft_check_site& site, int64_t block, int64_t thread,
                            const int64_t* values) noexcept {
  return safely([&] {
    if (is_ended_) return 1;
    Report report =
        report_of(site, triple_of(block, launch_->grid), triple_of(thread, launch_->block), values);
    if (site.flags == 0) return add(std::move(report)) ? 0 : 1;
    if (seen_.memory != nullptr) return tell_lifetime(site, block, thread, values, std::move(report));
    if (seen_.kind < 0) return 0;
    const bool is_async = (site.flags & kAsync) != 0;
    const Access access{site, this->block(block), static_cast<int32_t>(thread), {}, is_async};
    complete(access, values, report);
    constexpr int32_t kWaits = WEFT_ACCESS_RACES | WEFT_ACCESS_ASYNC;
    if (seen_.kind != WEFT_CHECK_uninitialized) {
      drop_unwritten(access);
    } else if ((site.flags & kWaits) != 0 && (site.flags & WEFT_ACCESS_AWAITED) == 0) {
      return keep_unwritten(access, std::move(report)) ? 0 : 1;
    }
    if (seen_.address != nullptr) {
      const bool is_shared = (site.flags & WEFT_ACCESS_SHARED) != 0;
      end_quick();
      doubts_.push_back(
          {std::move(report), seen_.address, std::string(seen_.address, at(seen_.bytes)), is_shared});
      return 0;
    }
    return add(std::move(report)) ? 0 : 1;
  });
}

// Who wrote last where a test asks for it.
void RaceDetector::answer() {
  WriterQuestion& question = writer_question();
  if (question.address == nullptr) return;
  shadow_->for_each(question.address, 1, [&](const Cell& noted) {
    const History cell = shadow_->history(noted);
    const Record& writer = cell.write.bits != 0 ? cell.write : cell.atomic;
    if (writer.bits == 0 || Epochs::is_async(writer.epoch())) return;
    const Owner owner = owner_of(writer);
    const Triple block = triple_of(owner.block, launch_->grid);
    const Triple thread = triple_of(owner.thread, launch_->block);
    std::copy(block.begin(), block.end(), question.block);
    std::copy(thread.begin(), thread.end(), question.thread);
    question.places = site_of(writer).places;
    question.is_answered = true;
  });
}

int32_t RaceDetector::finish(int32_t code) noexcept {
  safely([&] {
    answer();
    return 0;
  });
  // Shared memory is gone: elements unread after the last block do not matter.
  const auto is_gone = [](const Doubt& doubt) { return doubt.is_shared; };
  doubts_.erase(std::remove_if(doubts_.begin(), doubts_.end(), is_gone), doubts_.end());
  const bool was_ended = is_ended_;
  safely([&] {
    settle();
    settle_unwritten(kEvery, true);
    return 0;
  });
  if (has_no_memory_) return raise_error("MemoryError", "no memory to check a launch");
  if (reports_.empty() || (code != 0 && !was_ended && raised_by_signal())) return code;
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
  if (launch->detector != nullptr) return detector_of(launch)->found(*site, block, thread, values);
  __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);  // blocks on other threads stop when they see it
  try {
    const Triple index = triple_of(block, launch->grid);
    raise_reports(launch->kernel_name, {report_of(*site, index, triple_of(thread, launch->block), values)});
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
  return 1;
}

int32_t sanitizer_copy(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const void* address, int64_t bytes, const void* word) {
  return detector_of(launch)->copy(*site, block, thread, address, bytes, word);
}

int32_t sanitizer_box(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                      const void* map, const weft_tma_tile* tile, const int32_t* indices, const void* word) {
  const auto& found = *static_cast<const weft_cpu_tensor_map*>(map);
  return detector_of(launch)->copy_box(*site, block, thread, found, *tile, indices, word);
}

void sanitizer_event(weft_cpu_launch* launch, int32_t event, int64_t block, int64_t thread,
                     const void* address, int64_t bytes) {
  detector_of(launch)->event(event, block, thread, address, bytes);
}

}  // namespace weft
