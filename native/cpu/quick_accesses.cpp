// SPDX-License-Identifier: Apache-2.0
//
// The short way of most accesses, in a few dozen instructions: nothing that it finds has to be looked up.
#include "cpu/watch.h"
#include "hints.h"

namespace weft {

// What a quick access may find in a cell: records of its own epoch, and those that all threads of the block
// know of since they have met.
struct Watch::Quick {
  const Current& block;
  const ThreadClock& clock;
  uint64_t thread;
  uint64_t record;  // of the access, its bits
  int32_t flags;

  bool is_past(const Record& other) const {
    return other.bits == 0 || other.bits - block.first < block.known ||
           (other.bits ^ record) >> Record::kSiteBits == 0;
  }
  // Whether the thread has learned nothing since the block's threads met.
  bool is_fresh() const { return clock.epoch == block.met + thread && clock.known.is(*block.common); }

  // Whether that is all that the access finds in a cell, where it is noted then.
  bool pass(Cell& cell) const {
    if ((flags & WEFT_ACCESS_LOCAL) == 0) {
      // Shared memory of a block that has ended.
      if ((flags & WEFT_ACCESS_SHARED) != 0 && cell.any().bits < block.first) cell = {};
      if (!is_past(cell.write) || !is_past(cell.atomic)) return false;
      if ((flags & WEFT_ACCESS_WRITES) != 0 && (!is_past(cell.reads[0]) || !is_past(cell.reads[1])))
        return false;
    }
    if ((flags & WEFT_ACCESS_WRITES) != 0) {
      cell = {{record}, {}, {}};
      return true;
    }
    constexpr int32_t kBegins = WEFT_ACCESS_SHARED | WEFT_ACCESS_LOCAL;
    const bool has_beginning = (flags & kBegins) != 0 && (flags & WEFT_ACCESS_UNINIT) != 0;
    if (has_beginning && !cell.is_written()) return false;
    if (is_past(cell.reads[0])) {
      cell.reads[0].bits = record;
      return true;
    }
    if (Epochs::is_beside(cell.reads[0].epoch()) || !is_fresh()) return false;
    cell.reads[1].bits = record;  // whether the last one comes before or not
    return true;
  }
};

inline bool Watch::access_elements(const weft_check_site& site, int64_t block, int64_t thread,
                                   const char* address, int32_t count) {
  if (quick_.block != block || (site.flags & kOrders) != 0) return false;
  const ThreadClock& clock = quick_.threads[thread];
  const Quick quick{quick_, clock, static_cast<uint64_t>(thread), record_at(site, clock.epoch).bits,
                    site.flags};
  if (WEFT_UNLIKELY((site.flags & WEFT_ACCESS_SCRATCH) != 0) &&
      !pass_scratch(site.flags, address, int64_t{count} * site.bytes)) {
    return false;
  }
  for (int32_t element = 0; element < count; ++element, address += site.bytes) {
    Cell* cell = shadow_.find(address, site.bytes);
    if (cell == nullptr || !quick.pass(*cell)) return false;
  }
  return true;
}

bool Watch::access_quickly(const weft_check_site& site, int64_t block, int64_t thread, const char* address) {
  return access_elements(site, block, thread, address, site.count);
}

int32_t sanitizer_access(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                         const void* address) {
  Watch* watch = watch_of(launch);
  const auto* place = static_cast<const char*>(address);
  const bool is_one = site->count == 1;
  if (WEFT_LIKELY(is_one && watch->access_elements(*site, block, thread, place, 1))) return 0;
  if (!is_one && watch->access_quickly(*site, block, thread, place)) return 0;
  return watch->access(*site, block, thread, address);
}

}  // namespace weft
