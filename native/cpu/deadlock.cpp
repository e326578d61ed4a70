// SPDX-License-Identifier: Apache-2.0
//
// The text of an error about threads that cannot continue.
#include "cpu/deadlock.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cpu/mbarrier.h"
#include "cpu/race_detector.h"
#include "runtime/failure.h"

namespace weft {
namespace {

// An operation's name for users: `shuffle_xor` is shfl_xor, `reduce_umax` warp.max, `vote_any` warp.any.
std::string name_of(int32_t operation) {
#define WEFT_ROW(name) #name,
  static constexpr const char* kNames[] = {WEFT_COOPERATIVE_OPERATIONS(WEFT_ROW)};
#undef WEFT_ROW
  switch (operation) {
    case WEFT_COOPERATIVE_barrier:
    case WEFT_COOPERATIVE_barrier_count:
    case WEFT_COOPERATIVE_barrier_and:
    case WEFT_COOPERATIVE_barrier_or:
      return "block barrier";
    case WEFT_COOPERATIVE_cluster_barrier:
      return "cluster barrier";
    case WEFT_COOPERATIVE_grid_barrier:
      return "grid barrier";
    case WEFT_COOPERATIVE_warp_barrier:
      return "warp barrier";
    case WEFT_COOPERATIVE_warpgroup_barrier:
      return "sync_warpgroup";
    case WEFT_COOPERATIVE_named_barrier_sync:
    case WEFT_COOPERATIVE_named_barrier_arrive:
      return "named barrier";
    case WEFT_COOPERATIVE_yield:
      return "loop";
    case WEFT_COOPERATIVE_match_any:
      return "match";
    case WEFT_COOPERATIVE_vote_ballot:
      return "ballot";
    case WEFT_COOPERATIVE_reduce_add:
      return "warp.sum";
    case WEFT_COOPERATIVE_reduce_umin:
      return "warp.min";
    case WEFT_COOPERATIVE_reduce_umax:
      return "warp.max";
    case WEFT_COOPERATIVE_reduce_and:
    case WEFT_COOPERATIVE_reduce_or:
    case WEFT_COOPERATIVE_reduce_xor:
      return "warp.bitwise_" + std::string(kNames[operation]).substr(7);
    default:
      break;
  }
  struct Prefix {
    const char* ours;
    const char* users;
  };
  constexpr Prefix kPrefixes[] = {{"shuffle_", "shfl_"}, {"vote_", "warp."}, {"reduce_", "warp."}};
  const std::string name = kNames[operation];
  for (const Prefix& prefix : kPrefixes) {
    const std::string ours = prefix.ours;
    if (name.compare(0, ours.size(), ours) == 0) return prefix.users + name.substr(ours.size());
  }
  return name;
}

const weft_thread_slot& slot_of(const BlockState& state, int32_t thread) {
  return *reinterpret_cast<const weft_thread_slot*>(state.slots + thread * state.stride);
}

bool waits_alike(const weft_thread_slot& a, const weft_thread_slot& b) {
  if (a.state != b.state) return false;
  if (a.state == WEFT_THREAD_EXITED) return true;
  if (a.state == WEFT_THREAD_NAMED && a.value != b.value) return false;
  if (a.state == WEFT_THREAD_MBARRIER && (a.value != b.value || a.lane != b.lane)) return false;
  return a.site == b.site && (a.state != WEFT_THREAD_COLLECTIVE || a.mask == b.mask);
}

std::string hexadecimal(uint32_t mask) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[mask >> shift & 0xf];
  return text;
}

// A thread in front of a barrier in shared memory, or one that misuses it.
std::string mbarrier_state(const weft_thread_slot& slot, const weft_cooperative_site& site) {
  const auto* word = reinterpret_cast<const uint64_t*>(slot.value);
  std::string text = std::string("at ") + site.name;
  text += "[" + std::to_string((slot.value - slot.result) / sizeof *word) + "]";
  if (slot.mask != WEFT_MBARRIER_WAIT) return text + ".arrive";
  return text + ".wait for the phase of parity " + std::to_string(slot.lane) + ", where " +
         mbarrier_text(*word) + ",";
}

std::string state_of(const BlockState& state, const weft_thread_slot& slot) {
  if (slot.state == WEFT_THREAD_EXITED) return "exited";
  const weft_cooperative_site& site = state.kernel->sites[slot.site];
  std::string text = std::string("at ") + name_of(site.operation);
  if (slot.state == WEFT_THREAD_MBARRIER) text = mbarrier_state(slot, site);
  if (site.place[0] != '\0') text += std::string(" at ") + site.place;
  if (slot.state == WEFT_THREAD_NAMED) {
    text += ", where " + std::to_string(slot.result) + " of " + std::to_string(slot.lane) + " threads are";
  }
  if (slot.state == WEFT_THREAD_COLLECTIVE) text += " (mask " + hexadecimal(slot.mask) + ")";
  return text;
}

std::string block_text(const BlockState& state) {
  const int32_t* grid = state.launch->grid;
  return "(" + std::to_string(state.block % grid[0]) + ", " +
         std::to_string(state.block / grid[0] % grid[1]) + ", " +
         std::to_string(state.block / grid[0] / grid[1]) + ")";
}

// The place of a thread that waits.
ReportPlace report_place(const BlockState& state, int32_t thread) {
  const weft_thread_slot& slot = slot_of(state, thread);
  const weft_cooperative_site& site = state.kernel->sites[slot.site];
  return {site.excerpt, site.places, name_of(site.operation), triple_of(state.block, state.launch->grid),
          triple_of(thread, state.launch->block)};
}

bool waits(const weft_thread_slot& slot) {
  return slot.state != WEFT_THREAD_READY && slot.state != WEFT_THREAD_EXITED &&
         slot.state != WEFT_THREAD_FAILED;
}

// The error, or a finding where the sanitizer looks for those; `has_begun`: the block's threads have.
void raise_misfortune(const BlockState& state, const std::string& text, bool has_begun) {
  RaceDetector* detector = detector_of(state.launch);
  if (detector == nullptr || !detector->reports_barriers()) {
    raise_error("RuntimeError", text);
    return;
  }
  Report report;
  report.kind = WEFT_CHECK_divergent_barrier;
  report.said = text;
  for (int32_t thread = 0; has_begun && thread < state.threads; ++thread) {
    if (!waits(slot_of(state, thread))) continue;
    ReportPlace place = report_place(state, thread);
    if (report.here.excerpt.empty()) {
      report.here = std::move(place);
    } else if (place.places != report.here.places) {
      report.other = std::move(place);
      break;
    }
  }
  report.here.block = triple_of(state.block, state.launch->grid);
  detector->add(std::move(report));
}

// Threads of a block that wait for the same, as ranges of their numbers.
struct Alike {
  std::vector<std::pair<int32_t, int32_t>> ranges;
  int32_t count = 0;

  void add(int32_t thread) {
    ++count;
    if (!ranges.empty() && ranges.back().second + 1 == thread) {
      ranges.back().second = thread;
    } else {
      ranges.emplace_back(thread, thread);
    }
  }

  // `thread 3`, `threads 0..15, 32..47`, `threads 0, 2, 4, ... 254 (128 in all)`.
  std::string text() const {
    std::string text = count == 1 ? "thread " : "threads ";
    for (std::size_t number = 0; number < ranges.size(); ++number) {
      if (ranges.size() > kMostRanges && number == kMostRanges - 1) {
        number = ranges.size() - 1;
        text += "... ";
      }
      const auto& [first, last] = ranges[number];
      text += std::to_string(first) + (first == last ? "" : ".." + std::to_string(last));
      if (number + 1 < ranges.size()) text += ", ";
    }
    return text + (ranges.size() > kMostRanges ? " (" + std::to_string(count) + " in all)" : "");
  }

  static constexpr std::size_t kMostRanges = 4;
};

std::vector<Alike> alike_threads(const BlockState& state) {
  std::vector<Alike> found;
  for (int32_t thread = 0; thread < state.threads; ++thread) {
    const auto is_alike = [&](const Alike& one) {
      return waits_alike(slot_of(state, thread), slot_of(state, one.ranges.front().first));
    };
    auto alike = std::find_if(found.begin(), found.end(), is_alike);
    if (alike == found.end()) alike = found.emplace(found.end());
    alike->add(thread);
  }
  return found;
}

constexpr std::size_t kMostGroups = 8;

}  // namespace

int32_t raise_deadlock(const BlockState* blocks, int32_t count, const char* what) {
  try {
    std::string text = std::string(blocks->launch->kernel_name) + ": " + what;
    for (int32_t block = 0; block < count; ++block) {
      const BlockState& state = blocks[block];
      text += (block == 0 ? ", in block " : "\nin block ") + block_text(state) + ":";
      std::size_t shown = 0;
      for (const Alike& alike : alike_threads(state)) {
        if (++shown > kMostGroups) {
          text += "\n  and others";
          break;
        }
        text += "\n  " + alike.text() + " " + state_of(state, slot_of(state, alike.ranges.front().first));
      }
    }
    raise_misfortune(*blocks, text, true);
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
  return 1;
}

int32_t raise_overwritten(const BlockState& owner, const BlockState* writer) {
  try {
    std::string text = std::string(owner.launch->kernel_name) + ": ";
    if (writer == nullptr) {
      text += "shared memory of block " + block_text(owner) + " was written before that block had begun; " +
              "call weft.sync_cluster() before the first access";
    } else {
      text += "block " + block_text(*writer) + " wrote shared memory of block " + block_text(owner) +
              ", which had returned; call weft.sync_cluster() after the last access";
    }
    raise_misfortune(writer == nullptr ? owner : *writer, text, writer != nullptr);
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
  return 1;
}

}  // namespace weft
