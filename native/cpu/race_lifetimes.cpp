// SPDX-License-Identifier: Apache-2.0
//
// Blocks that reach each other's shared memory: it must have begun before, and end after.
#include <algorithm>
#include <utility>
#include <vector>

#include "cpu/race_detector.h"

namespace weft {

void RaceDetector::share(const std::vector<int64_t>& blocks, const char* shared, int64_t bytes) noexcept {
  safely([&] {
    quick_.block = -1;
    memories_.clear();
    memories_.resize(blocks.size());
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      memories_[rank].block = blocks[rank];
      memories_[rank].returned.resize(at(threads_));
    }
    shared_ = shared;
    shared_bytes_ = bytes;
    return 0;
  });
}

// The memory of a block at an address, or NULL.
RaceDetector::Memory* RaceDetector::memory_at(const char* address) {
  const auto offset = reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(shared_);
  const uint64_t rank = offset / static_cast<uint64_t>(shared_bytes_);
  return rank < memories_.size() ? &memories_[static_cast<std::size_t>(rank)] : nullptr;
}

void RaceDetector::check_lifetime(const Access& access, const char* address) {
  Memory* memory = memory_at(address);
  if ((access.site.flags & WEFT_ACCESS_RACES) == 0) return;
  if (memory == nullptr || memory->block == access.block.number) return;
  const Shared<Clock>& known = access.clock().known;
  const bool has_begun = !known.empty() && known.get()->has(memory->block);
  if (memory->has_ended || !has_begun) seen_.kind = WEFT_CHECK_lifetime;
  seen_.other = access.record;
  seen_.memory = memory;
}

// Reports an access of another block's memory, or keeps the report in case that block ends too early.
int32_t RaceDetector::tell_lifetime(const weft_check_site& site, int64_t block, int64_t thread,
                                    const int64_t* values, Report report) {
  Memory& memory = *seen_.memory;
  const bool is_pending = seen_.kind < 0;
  const std::string array = site.rank == 0 ? site.array : elements_text(site, values);
  const std::string owner = "block " + triple_text(triple_of(memory.block, launch_->grid));
  report.kind = WEFT_CHECK_lifetime;
  report.said = array + (site.count == 1 ? " is " : " are ") + site.access + ", and ";
  if (is_pending || memory.has_ended) {
    report.said += owner + ", whose memory it is, ends: nothing orders the two";
  } else {
    report.said += "nothing says that " + owner + ", whose memory it is, has begun";
  }
  if (is_pending) {
    memory.others[{block, static_cast<int32_t>(thread)}] = {seen_.other, std::move(report)};
    return 0;
  }
  if (memory.has_ended) report.other = end_of(memory);
  return add(std::move(report)) ? 0 : 1;
}

ReportPlace RaceDetector::end_of(const Memory& memory) const {
  const Owner owner = owner_of(memory.end);
  return make_report_place(site_of(memory.end), triple_of(owner.block, launch_->grid),
                           triple_of(owner.thread, launch_->block));
}

// The thread has returned, for the first time: what follows that in the code is not for it.
void RaceDetector::note_end(const weft_check_site& site, int64_t block, int64_t thread) {
  const auto is_its = [&](const Memory& memory) { return memory.block == block; };
  const auto memory = std::find_if(memories_.begin(), memories_.end(), is_its);
  if (memory == memories_.end() || memory->returned[at(thread)]) return;
  memory->returned[at(thread)] = true;
  memory->end = record_of(site, this->block(block).threads[at(thread)].epoch);
}

bool RaceDetector::ended(int64_t block) noexcept {
  safely([&] {
    const auto is_its = [&](const Memory& memory) { return memory.block == block; };
    const auto memory = std::find_if(memories_.begin(), memories_.end(), is_its);
    if (memory == memories_.end()) return 0;
    memory->has_ended = true;
    // It lasts until the last of its threads has returned: what any of them knew came before.
    ThreadClock all;
    const Clock* last = nullptr;
    for (const ThreadClock& own : this->block(block).threads) {
      if (own.known.empty() || own.known.get() == last) continue;
      last = own.known.get();
      all.known.edit().join(*last);
    }
    for (auto& [who, access] : memory->others) {
      if (knows(all, access.first, 0)) continue;
      access.second.other = end_of(*memory);
      if (!add(std::move(access.second))) break;
    }
    memory->others.clear();
    return 0;
  });
  return launch_->failed == 0;
}

}  // namespace weft
