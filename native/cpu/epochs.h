// SPDX-License-Identifier: Apache-2.0
//
// Whose each epoch of a launch is.
//
// A launch numbers the epochs of all its threads as they begin, so that one number says who, and of two
// epochs of a thread which is the later one. Threads that begin epochs one after the other are noted
// together.
#ifndef WEFT_CPU_EPOCHS_H_
#define WEFT_CPU_EPOCHS_H_

#include <cstdint>
#include <vector>

namespace weft {

// Who has an epoch: a thread, or an asynchronous operation that it began.
struct Owner {
  int64_t block = 0;
  int32_t thread = 0;
  uint32_t count = 0;  // of an asynchronous operation: after how many others of its kind
};

class Epochs {
 public:
  // Numbers with this bit are of asynchronous operations.
  static constexpr uint64_t kAsync = uint64_t{1} << 39;
  static bool is_async(uint64_t epoch) { return (epoch & kAsync) != 0; }

  // From these numbers on; 0 is none's.
  Epochs(uint64_t first, uint64_t first_async) {
    threads_.next = first;
    async_.next = first_async;
  }
  // The number of the thread's next epoch.
  uint64_t next() const { return threads_.next; }
  // Of asynchronous operations, without their bit.
  uint64_t next_async() const { return async_.next; }
  // Epochs of consecutive threads begin; returns that of the first.
  uint64_t begin(int64_t block, int32_t thread, int32_t count = 1) {
    return threads_.add({block, thread, 0}, count);
  }
  // The same for asynchronous operations.
  uint64_t begin_async(const Owner& owner) { return kAsync | async_.add_once(owner); }

  Owner owner(uint64_t epoch) const {
    return is_async(epoch) ? async_.owner(epoch & ~kAsync) : threads_.owner(epoch);
  }

 private:
  // Consecutive epochs: of one thread, or each of the next thread.
  struct Run {
    uint64_t first = 0;
    Owner owner;
    int32_t step = 1;  // from one epoch's thread to the next one's

    Owner at(uint64_t epoch) const {
      const auto distance = static_cast<int32_t>(epoch - first);
      return {owner.block, owner.thread + step * distance, owner.count};
    }
  };
  struct Runs {
    std::vector<Run> runs;
    uint64_t next = 1;

    uint64_t add(const Owner& owner, int32_t count);
    // That of the last one if it has the same owner.
    uint64_t add_once(const Owner& owner);
    bool extend(const Owner& owner, int32_t count);
    Owner owner(uint64_t epoch) const;
  };

  Runs threads_, async_;
};

}  // namespace weft

#endif  // WEFT_CPU_EPOCHS_H_
