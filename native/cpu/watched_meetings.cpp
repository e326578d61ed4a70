// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler tells of threads that meet: from there on they know of each other.
#include <utility>
#include <vector>

#include "cpu/watch.h"

namespace weft {

void Watch::meet_lanes(int64_t block, int32_t first, uint32_t lanes) noexcept {
  safely([&] {
    WatchedBlock& own = this->block(block);
    std::vector<std::pair<WatchedBlock*, int32_t>> members;
    for (uint32_t left = lanes; left != 0; left &= left - 1)
      members.push_back({&own, first + __builtin_ctz(left)});
    clocks_.meet(members);
    return 0;
  });
}

void Watch::meet_threads(int64_t block, int32_t first, int32_t count) noexcept {
  safely([&] {
    WatchedBlock& own = this->block(block);
    std::vector<std::pair<WatchedBlock*, int32_t>> members;
    for (int32_t thread = first; thread < first + count; ++thread) members.push_back({&own, thread});
    clocks_.meet(members);
    return 0;
  });
}

void Watch::meet_blocks(const int64_t* blocks, int32_t count) noexcept {
  safely([&] {
    std::vector<std::pair<WatchedBlock*, int32_t>> members;
    for (int32_t number = 0; number < count; ++number) {
      WatchedBlock& own = this->block(blocks[number]);
      for (int32_t thread = 0; thread < threads_; ++thread) members.push_back({&own, thread});
    }
    clocks_.meet(members);
    return 0;
  });
}

void Watch::named_arrive(int64_t block, int32_t barrier, int32_t thread) noexcept {
  safely([&] {
    WatchedBlock& own = this->block(block);
    clocks_.release(own, thread, own.named[barrier]);
    return 0;
  });
}

void Watch::named_pass(int64_t block, int32_t barrier, int32_t thread) noexcept {
  safely([&] {
    WatchedBlock& own = this->block(block);
    clocks_.acquire(own.threads[at(thread)], own.named[barrier]);
    return 0;
  });
}

void Watch::named_opened(int64_t block, int32_t barrier) noexcept {
  safely([&] {
    this->block(block).named[barrier] = {};
    return 0;
  });
}

}  // namespace weft
