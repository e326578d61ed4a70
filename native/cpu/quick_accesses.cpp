// SPDX-License-Identifier: Apache-2.0
//
// The short way of most accesses, in a few dozen instructions: nothing that it finds has to be looked up.
#include "cpu/race_detector.h"
#include "hints.h"

namespace weft {

// Records that a quick access accepts in a cell: those of its own epoch, and those that all threads of the
// block know of since they have met.
struct RaceDetector::Quick {
  const Current& block;
  const ThreadClock& clock;
  uint64_t thread;
  uint64_t record;  // of the access, its bits
  int32_t flags;
  uint64_t floor;  // the least bits of a record that counts: of this launch, in shared memory of this block

  bool is_past(const Record& other) const {
    return other.bits < floor || other.bits - block.first < block.known ||
           (other.bits ^ record) >> Record::kSiteBits == 0;
  }
  // Whether the thread has learned nothing since the block's threads met.
  bool is_fresh() const { return clock.epoch == block.met + thread && clock.known.is(*block.common); }

  bool writes() const { return (flags & WEFT_ACCESS_WRITES) != 0; }
  // Whether it may read what no thread has written.
  bool needs_write() const {
    constexpr int32_t kBegins = WEFT_ACCESS_SHARED | WEFT_ACCESS_LOCAL;
    return (flags & kBegins) != 0 && (flags & WEFT_ACCESS_UNINIT) != 0;
  }
  bool may_race() const { return (flags & WEFT_ACCESS_LOCAL) == 0; }

  // Whether that is all that the access finds in a cell, where it is noted then.
  bool pass(Cell& cell, Shadow& shadow) const {
    if (WEFT_UNLIKELY(Shadow::is_long(cell))) return pass_long(cell, shadow);
    if (may_race() && (!is_past(cell.write) || (writes() && !is_past(cell.read)))) return false;
    if (writes()) {
      cell = {{record}, {}};
      return true;
    }
    if (cell.write.bits < floor) {
      if (needs_write()) return false;
      cell.write = {};  // of memory that has begun anew
    }
    if (is_past(cell.read)) {
      cell.read.bits = record;
      return true;
    }
    return false;  // a second reader: the history becomes a long one
  }

  bool pass_long(Cell& cell, Shadow& shadow) const {
    History* found = shadow.find_history(cell);
    if (found == nullptr || found->any().bits < floor) {
      shadow.note(cell, {});
      return pass(cell, shadow);
    }
    if (may_race() && (!is_past(found->write) || !is_past(found->atomic))) return false;
    if (writes()) {
      for (const Record& read : found->reads) {
        if (may_race() && !is_past(read)) return false;
      }
      shadow.note(cell, {{record}, {}});
      return true;
    }
    if (needs_write() && !found->is_written()) return false;
    for (Record& read : found->reads) {
      if (Epochs::is_async(read.epoch())) return false;
      if (!is_past(read)) continue;
      read.bits = record;
      return true;
    }
    if (!is_fresh()) return false;
    found->reads[History::kReads - 1].bits = record;  // whether the last one comes before or not
    return true;
  }
};

inline bool RaceDetector::access_elements(const weft_check_site& site, int64_t block, int64_t thread,
                                          const char* address, int32_t count) {
  if (quick_.block != block || (site.flags & kOrders) != 0) return false;
  if (site.sharer != 0 && (site.flags & WEFT_ACCESS_READS) != 0) return false;
  if ((site.flags & WEFT_ACCESS_SHARED) != 0 && !quick_.is_own(address)) return false;
  const ThreadClock& clock = quick_.threads[thread];
  const bool begins = (site.flags & WEFT_ACCESS_SHARED) != 0 && quick_.first != 0;
  const Quick quick{quick_,
                    clock,
                    static_cast<uint64_t>(thread),
                    record_at(site, clock.epoch).bits,
                    site.flags,
                    begins ? quick_.first : quick_.launch};
  if (WEFT_UNLIKELY((site.flags & WEFT_ACCESS_SCRATCH) != 0) &&
      !pass_scratch(site.flags, address, int64_t{count} * site.bytes)) {
    return false;
  }
  for (int32_t element = 0; element < count; ++element, address += site.bytes) {
    Cell* cell = shadow_->find(address, site.bytes);
    if (cell == nullptr || !quick.pass(*cell, *shadow_)) return false;
  }
  return true;
}

bool RaceDetector::access_quickly(const weft_check_site& site, int64_t block, int64_t thread,
                                  const char* address) {
  return access_elements(site, block, thread, address, site.count);
}

// Of one element whose history is short. It calls nothing, so that it need not save registers.
inline bool RaceDetector::access_one(const weft_check_site& site, int64_t block, int64_t thread,
                                     const char* address) const {
  const int32_t flags = site.flags;
  if ((flags & (kOrders | WEFT_ACCESS_SCRATCH)) != 0 || site.count != 1 || quick_.block != block)
    return false;
  if ((flags & WEFT_ACCESS_SHARED) != 0 && !quick_.is_own(address)) return false;
  Cell* found = shadow_->find(address, site.bytes);
  if (found == nullptr || Shadow::is_long(*found)) return false;
  const uint64_t epoch = quick_.threads[thread].epoch;
  const bool begins = (flags & WEFT_ACCESS_SHARED) != 0 && quick_.first != 0;
  const uint64_t floor = begins ? quick_.first : quick_.launch;
  const auto is_past = [&](uint64_t bits) {
    return bits < floor || bits - quick_.first < quick_.known || bits >> Record::kSiteBits == epoch;
  };
  const uint64_t write = found->write.bits;
  const bool may_race = (flags & WEFT_ACCESS_LOCAL) == 0;
  if (may_race && !is_past(write)) return false;
  if ((flags & WEFT_ACCESS_WRITES) != 0) {
    if (may_race && !is_past(found->read.bits)) return false;
    *found = {record_at(site, epoch), {}};
    return true;
  }
  if (write < floor) {
    constexpr int32_t kBegins = WEFT_ACCESS_SHARED | WEFT_ACCESS_LOCAL;
    if ((flags & kBegins) != 0 && (flags & WEFT_ACCESS_UNINIT) != 0) return false;
    found->write = {};
  }
  if (!is_past(found->read.bits)) return false;
  if (site.sharer != 0 && is_overwritten(found->write, site)) return false;
  found->read = record_at(site, epoch);
  return true;
}

namespace {

__attribute__((noinline)) int32_t access_slowly(RaceDetector* detector, const weft_check_site* site,
                                                int64_t block, int64_t thread, const char* address) {
  if (detector->access_quickly(*site, block, thread, address)) return 0;
  return detector->access(*site, block, thread, address);
}

}  // namespace

int32_t sanitizer_access(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                         const void* address) {
  RaceDetector* detector = detector_of(launch);
  const auto* place = static_cast<const char*>(address);
  if (WEFT_LIKELY(detector->access_one(*site, block, thread, place))) return 0;
  return access_slowly(detector, site, block, thread, place);
}

}  // namespace weft
