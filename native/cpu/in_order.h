// SPDX-License-Identifier: Apache-2.0
//
// Blocks in their order, which begin beside each other where one may wait for a later one.
//
// A block that yields for long may wait for one that has not begun: then more are begun beside it, of this
// call and of those that the grid's threads may still take, and all take turns. Their number doubles each
// time that none has ended for long. So each block goes on in the end, and a grid whose blocks only take long
// has few that are begun too early.
#ifndef WEFT_CPU_IN_ORDER_H_
#define WEFT_CPU_IN_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cpu/coresident.h"
#include "cpu/deadlock.h"
#include "cpu/order.h"
#include "cpu/overlap.h"
#include "cpu/pool.h"
#include "cpu/unstarted.h"

namespace weft {

constexpr int64_t kUnitAlignment = 1024;   // of shared memory, as swizzled arrays ask for
constexpr int kStepsPerLook = 64;          // of a block that yields, between two looks at the clock
constexpr int64_t kPatience = 10'000'000;  // nanoseconds until a block that yields is said to wait
constexpr int64_t kMostWaitingBytes = int64_t{1} << 30;  // of blocks that wait in one thread

// `Unit` is the scheduler's: a block or a cluster in memory that it borrows, of a call that `Call` describes.
template <typename Call, typename Unit>
class InOrder {
 public:
  InOrder(const Call& call, int64_t first, int64_t last, char* scratch)
      : call_(call), own_(call, scratch), next_(first), last_(last) {
    if ((call.launch->orders & WEFT_LAUNCH_BLOCKS) == 0) return;
    first_ = first;
    order_ = permuted(launch_order().blocks, launch_order().seed + 2, last - first);
  }

  int32_t run() {
    while (next_ < last_) {
      Pass pass = own_.start(take());
      int64_t since = 0;
      for (int steps = 1; pass == Pass::kAgain; ++steps) {
        pass = own_.step();
        if (steps % kStepsPerLook != 0) continue;
        const int64_t now = read_clock();
        if (since == 0) since = now;
        if (now - since > kPatience) break;
      }
      if (pass == Pass::kAgain ? !take_turns() : pass != Pass::kExited) return 1;
    }
    return 0;
  }

 private:
  struct Begun {
    OwnedMemory memory;
    Unit unit;
  };

  int64_t take() {
    const int64_t number = next_++;
    return order_.empty() ? number : first_ + order_[static_cast<size_t>(number - first_)];
  }

  // Whether a block is left that can be begun.
  bool has_more() { return next_ < last_ || (order_.empty() && take_unstarted(&next_, &last_)); }

  // Begins as many blocks as have not ended; false with the error set.
  bool begin_more() {
    for (size_t left = begun_.size() + 1; left != 0 && has_more(); --left) {
      const auto bytes =
          static_cast<size_t>((Unit::memory_bytes(call_) + kUnitAlignment - 1) & -kUnitAlignment);
      const bool fits = static_cast<int64_t>(bytes * (begun_.size() + 1)) <= kMostWaitingBytes;
      OwnedMemory memory = fits ? allocate_aligned(static_cast<int64_t>(bytes), kUnitAlignment) : nullptr;
      if (memory == nullptr) {
        const BlockState waits = begun_.empty() ? own_.described() : begun_.front()->unit.described();
        raise_deadlock(
            &waits, 1,
            "blocks wait in loops for blocks that have not begun, and no memory is left to begin more; "
            "launch fewer blocks, or let blocks wait for earlier ones only");
        return false;
      }
      char* place = memory.get();
      begun_.push_back(std::unique_ptr<Begun>(new Begun{std::move(memory), Unit(call_, place)}));
      if (begun_.back()->unit.start(take()) == Pass::kFailed) return false;
    }
    return true;
  }

  // Until all blocks that have begun have ended; false with the error set.
  bool take_turns() {
    bool own_ended = false;
    int64_t since = read_clock() - kPatience;
    do {
      const int64_t now = read_clock();
      if (now - since >= kPatience) {
        if (!begin_more()) return false;
        since = now;
      }
      if (!own_ended) {
        const Pass pass = own_.step();
        own_ended = pass == Pass::kExited;
        if (pass != Pass::kAgain && !own_ended) return false;
        if (own_ended) since = now;
      }
      for (size_t index = 0; index < begun_.size(); ++index) {
        const Pass pass = begun_[index]->unit.step();
        if (pass == Pass::kAgain) continue;
        if (pass != Pass::kExited) return false;
        begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(index--));
        since = now;
      }
    } while (!own_ended || !begun_.empty());
    return true;
  }

  const Call& call_;
  Unit own_;
  int64_t next_;
  int64_t last_;
  int64_t first_ = 0;
  std::vector<int64_t> order_;  // of a test; empty in a launch
  std::vector<std::unique_ptr<Begun>> begun_;
};

}  // namespace weft

#endif  // WEFT_CPU_IN_ORDER_H_
