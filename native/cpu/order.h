// SPDX-License-Identifier: Apache-2.0
//
// The order in which the threads of a block and the blocks of a launch run, where a test asks for another
// one; and who wrote some memory last, which such a test wants to know.
#ifndef WEFT_CPU_ORDER_H_
#define WEFT_CPU_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

enum class RunOrder : int32_t { kForward = 0, kBackward = 1, kRandom = 2 };

// Of the calling thread's next launches.
struct LaunchOrder {
  RunOrder threads = RunOrder::kForward;
  RunOrder blocks = RunOrder::kForward;
  uint64_t seed = 0;
};
LaunchOrder& launch_order();

// The numbers below `count` in an order; the same for the same seed everywhere.
std::vector<int64_t> permuted(RunOrder order, uint64_t seed, int64_t count);

// The order of a block's threads: warp after warp, and in each lane after lane.
class ThreadOrder {
 public:
  void set(const LaunchOrder& order, int32_t threads) {
    threads_ = threads;
    warps_ = permuted(order.threads, order.seed, (threads + kLanes - 1) / kLanes);
    lanes_ = permuted(order.threads, order.seed + 1, kLanes);
  }

  // Whether it was not set.
  bool is_forward() const { return lanes_.empty(); }

  // Visits the threads until one answers false; whether none did.
  template <typename Visit>
  bool visit(Visit visit) const {
    for (const int64_t warp : warps_) {
      for (const int64_t lane : lanes_) {
        const auto thread = static_cast<int32_t>(kLanes * warp + lane);
        if (thread < threads_ && !visit(thread)) return false;
      }
    }
    return true;
  }

  // The warp that is the next after `number` others.
  int32_t warp(int32_t number) const {
    return warps_.empty() ? number : static_cast<int32_t>(warps_[static_cast<std::size_t>(number)]);
  }

  // The first of some lanes.
  int next_lane(uint32_t lanes) const {
    for (const int64_t lane : lanes_) {
      if ((lanes >> lane & 1) != 0) return static_cast<int>(lane);
    }
    return __builtin_ctz(lanes);
  }

 private:
  static constexpr int32_t kLanes = 32;

  int32_t threads_ = 0;
  std::vector<int64_t> warps_, lanes_;
};

// A question to the next instrumented launches of the calling thread: who wrote at an address last.
struct WriterQuestion {
  const void* address = nullptr;  // NULL: none
  bool is_answered = false;
  int64_t block[3] = {}, thread[3] = {};
  std::string places;  // as of weft_check_site
};
WriterQuestion& writer_question();

}  // namespace weft

#endif  // WEFT_CPU_ORDER_H_
