// SPDX-License-Identifier: Apache-2.0
//
// One thread's remaining chunks of a grid, in one word that others may steal from.
//
// The owner takes chunks from the front, thieves take half from the back, both by compare-and-swap. The word
// also holds the grid's number, so that nothing is taken from a later grid by mistake, and whether the owner
// has joined: until then, the grid's caller may close the range to it.
#ifndef WEFT_CPU_RANGE_H_
#define WEFT_CPU_RANGE_H_

#include <atomic>
#include <cstdint>

namespace weft {

struct Range {
  static constexpr uint32_t kMostChunks = 0xFFFF;
  static constexpr uint32_t kMostEpoch = 0x7FFFFFFF;

  uint32_t epoch = 0;  // 31 bits: the number of the grid
  bool joined = false;
  uint32_t begin = 0;  // 16 bits each: chunks [begin, end)
  uint32_t end = 0;

  static Range unpack(uint64_t word) {
    return {static_cast<uint32_t>(word >> 33), (word >> 32 & 1) != 0,
            static_cast<uint32_t>(word >> 16 & 0xFFFF), static_cast<uint32_t>(word & 0xFFFF)};
  }
  uint64_t pack() const {
    return uint64_t{epoch} << 33 | uint64_t{joined} << 32 | uint64_t{begin} << 16 | uint64_t{end};
  }
};

// Takes the first chunk of the thread's own range; false if none is left.
inline bool take_chunk(std::atomic<uint64_t>& word, uint32_t* chunk) {
  uint64_t seen = word.load(std::memory_order_relaxed);
  for (;;) {
    Range range = Range::unpack(seen);
    if (range.begin >= range.end) return false;
    *chunk = range.begin++;
    if (word.compare_exchange_weak(seen, range.pack(), std::memory_order_acq_rel, std::memory_order_relaxed))
      return true;
  }
}

// Takes the upper half of another thread's range of grid `epoch`, at least one chunk; false if none is left.
inline bool steal_half(std::atomic<uint64_t>& word, uint32_t epoch, Range* stolen) {
  uint64_t seen = word.load(std::memory_order_relaxed);
  for (;;) {
    Range range = Range::unpack(seen);
    if (range.epoch != epoch || range.begin >= range.end) return false;
    *stolen = {epoch, true, range.end - (range.end - range.begin + 1) / 2, range.end};
    range.end = stolen->begin;
    if (word.compare_exchange_weak(seen, range.pack(), std::memory_order_acq_rel, std::memory_order_relaxed))
      return true;
  }
}

}  // namespace weft

#endif  // WEFT_CPU_RANGE_H_
