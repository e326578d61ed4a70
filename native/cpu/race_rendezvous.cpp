// SPDX-License-Identifier: Apache-2.0
//
// Rendezvous that the scheduler reports: the threads are ordered from there on.
#include <vector>

#include "cpu/race_detector.h"

namespace weft {

void RaceDetector::meet_lanes(int64_t block, int32_t first, uint32_t lanes) noexcept {
  safely([&] {
    InstrumentedBlock& own = this->block(block);
    std::vector<Members> members;
    for (uint32_t left = lanes; left != 0;) {
      const int begin = __builtin_ctz(left);
      const uint32_t others = ~(left >> begin);
      const int count = others == 0 ? 32 : __builtin_ctz(others);
      members.push_back({&own, first + begin, count});
      left &= count + begin >= 32 ? 0 : ~0U << (count + begin);
    }
    clocks_.meet(members);
    begin_quick();
    return 0;
  });
}

void RaceDetector::meet_threads(int64_t block, int32_t first, int32_t count) noexcept {
  safely([&] {
    clocks_.meet({{&this->block(block), first, count}});
    begin_quick();
    if (count == threads_ && memories_.empty()) settle_unwritten(block);
    return 0;
  });
}

void RaceDetector::meet_blocks(const int64_t* blocks, int32_t count) noexcept {
  safely([&] {
    std::vector<Members> members;
    for (int32_t number = 0; number < count; ++number) {
      members.push_back({&this->block(blocks[number]), 0, threads_});
    }
    clocks_.meet(members);
    begin_quick();
    for (int32_t number = 0; number < count; ++number) settle_unwritten(blocks[number]);
    return 0;
  });
}

void RaceDetector::named_arrive(int64_t block, int32_t barrier, int32_t thread) noexcept {
  safely([&] {
    InstrumentedBlock& own = this->block(block);
    clocks_.release(own, thread, own.named[barrier]);
    return 0;
  });
}

void RaceDetector::named_pass(int64_t block, int32_t barrier, int32_t thread) noexcept {
  safely([&] {
    InstrumentedBlock& own = this->block(block);
    clocks_.acquire(own.threads[at(thread)], own.named[barrier]);
    return 0;
  });
}

void RaceDetector::named_opened(int64_t block, int32_t barrier) noexcept {
  safely([&] {
    this->block(block).named[barrier] = {};
    return 0;
  });
}

}  // namespace weft
