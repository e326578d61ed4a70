// SPDX-License-Identifier: Apache-2.0
//
// What each thread of a launch knows of the others: a vector clock, so that the sanitizer can tell which
// accesses are ordered.
//
// An epoch of a thread ends whenever others may learn of its accesses. It knows, for every other thread, the
// last epoch whose accesses come before its own. The whole launch runs on one thread of the machine, so
// nothing here is atomic.
#ifndef WEFT_CPU_CLOCKS_H_
#define WEFT_CPU_CLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/epochs.h"

namespace weft {

// A value that copies share until one of them is edited; empty at first.
template <typename T>
class Shared {
 public:
  Shared() = default;
  Shared(const Shared& other) : box_(other.box_) {
    if (box_ != nullptr) ++box_->references;
  }
  Shared(Shared&& other) noexcept : box_(std::exchange(other.box_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(box_, other.box_);
    return *this;
  }
  ~Shared() {
    if (box_ != nullptr && --box_->references == 0) delete box_;
  }

  bool empty() const { return box_ == nullptr; }
  const T* get() const { return box_ == nullptr ? nullptr : &box_->value; }
  bool is(const Shared& other) const { return box_ == other.box_; }
  // The value, of this copy alone from here on.
  T& edit() {
    if (box_ == nullptr) {
      box_ = new Box;
    } else if (box_->references > 1) {
      *this = Shared(new Box{1, box_->value});
    }
    return box_->value;
  }

 private:
  struct Box {
    int64_t references = 1;
    T value{};
  };
  explicit Shared(Box* box) : box_(box) {}

  Box* box_ = nullptr;
};

struct ThreadClock;

// The last epochs that come before, by thread, of some blocks and of their asynchronous operations.
class Clock {
 public:
  // Blocks from here on stand for what asynchronous copies see of a block: one that many lower.
  static constexpr int64_t kProxy = int64_t{1} << 44;
  // The same of global memory.
  static constexpr int64_t kGlobalProxy = int64_t{1} << 45;
  // And these for the asynchronous operations of a block.
  static constexpr int64_t kAsync = int64_t{1} << 42;

  uint64_t at(int64_t block, int32_t thread) const {
    for (const Part& part : parts_) {
      if (part.block < block) continue;
      return part.block == block ? part.at(thread) : 0;
    }
    return 0;
  }
  void set(int64_t block, int32_t thread, uint64_t epoch);
  // The same for consecutive threads.
  void set_each(int64_t block, int32_t first, int32_t count, const ThreadClock* threads);
  // All threads of a block have come to this epoch.
  void set_all(int64_t block, uint64_t epoch);
  void join(const Clock& other);
  // Copies see all that is known here, in the memory of `proxy`.
  void show_to_copies(int64_t proxy);
  // Whether it tells of a block.
  bool has(int64_t block) const {
    for (const Part& part : parts_) {
      if (part.block == block) return true;
    }
    return false;
  }
  // Whether it tells of no other block.
  bool is_of(int64_t block) const { return parts_.size() == 1 && parts_[0].block == block; }

 private:
  using Numbers = std::vector<uint64_t>;
  struct Part {
    int64_t block;
    uint64_t all;             // of every thread
    Shared<Numbers> further;  // of each thread, where that is more

    uint64_t at(int32_t thread) const {
      const auto place = static_cast<std::size_t>(thread);
      const bool is_further = !further.empty() && place < further.get()->size();
      return is_further && (*further.get())[place] > all ? (*further.get())[place] : all;
    }
    void join(const Part& other);
  };
  Part& part(int64_t block);

  std::vector<Part> parts_;  // by block
};

// A thread's.
struct ThreadClock {
  uint64_t epoch = 0;
  Shared<Clock> known;
  Shared<Clock> released;  // what its last fence lets others learn from its atomics since
  Shared<Clock> pending;   // what its atomics have read and its next fence acquires
  // The first epoch of the iterations of weft.each that it runs: each has one, and none comes after
  // another. 0: it runs none.
  uint64_t iterations = 0;
};

// The clocks of a block that is alive.
//
// Where no other block is alive, epochs from `first` on are its threads', and those before `met` known to all
// of them, since they have met. Both are 0 elsewhere.
struct InstrumentedBlock {
  int64_t number = 0;
  std::vector<ThreadClock> threads;
  bool is_alone = false;
  uint64_t first = 0;
  uint64_t met = 0;
  Shared<Clock> common;     // what all of them knew when they met
  bool is_isolated = true;  // `common` tells of no other block
  // What arrivals at named barriers have brought.
  Shared<Clock> named[8];
  // Asynchronous operations that each thread has started: committed groups of elements, stores, its
  // warpgroup's wgmmas.
  std::vector<uint32_t> groups, stores, wgmmas;
};

// What threads learn from each other at a barrier in memory.
struct RendezvousPoint {
  int32_t number = 0;   // among those of the launch
  int64_t group = -1;   // of blocks in whose time it lies
  uint64_t parity = 0;  // of the phase that `arriving` belongs to
  uint32_t first = 0;   // phases that were complete when the group began
  uint32_t phases = 0;  // that are complete
  Shared<Clock> arriving;
  Shared<Clock> done;
};

// Some consecutive threads of a block.
struct Members {
  InstrumentedBlock* block;
  int32_t first;
  int32_t count;

  bool are_all() const { return static_cast<std::size_t>(count) == block->threads.size(); }
};

// Rules by which threads learn.
class Clocks {
 public:
  explicit Clocks(Epochs* epochs) : epochs_(epochs) {}

  // The block's threads begin.
  void start(InstrumentedBlock& block);
  // Lets others learn, from `into`, of all that the thread knows and has done; its next epoch begins.
  void release(InstrumentedBlock& block, int32_t thread, Shared<Clock>& into);
  void acquire(ThreadClock& own, const Shared<Clock>& from);
  // All of them learn of each other.
  void meet(const std::vector<Members>& members);
  void fence(InstrumentedBlock& block, int32_t thread);
  void proxy_fence(InstrumentedBlock& block, int32_t thread, int64_t proxy);

 private:
  void join(Shared<Clock>& into, const Shared<Clock>& from);
  void go_on(const Members& members, const Shared<Clock>& all);

  Epochs* epochs_;
  // The last join, which the next threads of a warp or block repeat.
  Shared<Clock> last_into_, last_from_, last_result_;
};

}  // namespace weft

#endif  // WEFT_CPU_CLOCKS_H_
