// SPDX-License-Identifier: Apache-2.0
//
// Who wrote and read each piece of memory last, kept beside it by address.
//
// Memory is noted in cells of one element each: a page begins with cells as large as its first access and
// splits them when a smaller one comes. Epochs go on from launch to launch of a thread, so that what an
// earlier launch has noted is recognized, and nothing is cleared.
#ifndef WEFT_CPU_SHADOW_H_
#define WEFT_CPU_SHADOW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hints.h"

namespace weft {

// An access: in whose epoch, at which place of the kernel.
struct Record {
  static constexpr int kSiteBits = 24;

  uint64_t bits = 0;  // 0: none

  static Record of(uint64_t epoch, int64_t site) {
    return {epoch << kSiteBits | (static_cast<uint64_t>(site) & ((uint64_t{1} << kSiteBits) - 1))};
  }
  uint64_t epoch() const { return bits >> kSiteBits; }
  // From the launch's first site, in units of 8 bytes.
  int64_t site() const { return static_cast<int64_t>(bits << (64 - kSiteBits)) >> (64 - kSiteBits); }
};

// Of at most 8 bytes. The last plain write, the last atomic one since, and the reads since that no later read
// comes after: of more than there is room for, the first ones and the last.
struct History {
  static constexpr int kReads = 4;

  Record write;
  Record atomic;
  Record reads[kReads];

  bool is_written() const { return (write.bits | atomic.bits) != 0; }
  const Record& any() const { return write.bits != 0 ? write : atomic.bits != 0 ? atomic : reads[0]; }

  // Adds a read; `is_past(record)`: that read comes before it, or is the same thread's.
  template <typename IsPast>
  void add_read(const Record& read, IsPast is_past) {
    for (Record& other : reads) {
      if (other.bits != 0 && !is_past(other)) continue;
      other = read;
      return;
    }
    reads[kReads - 1] = read;
  }
};

// A history as it is kept: of most, the last plain write and one read are all; of others, where it is.
struct Cell {
  Record write;
  Record read;
};

class Shadow {
 public:
  // The calling thread's, with what its last launch has left; NULL without memory.
  static std::unique_ptr<Shadow> take() noexcept;
  // For the thread's next launch, unless it has become large. `epoch` and `async` are the next ones.
  static void give_back(std::unique_ptr<Shadow> shadow, uint64_t epoch, uint64_t async) noexcept;

  Shadow() = default;
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // The epochs with which this launch begins: of threads, and of asynchronous operations.
  uint64_t first_epoch() const { return first_epoch_; }
  uint64_t first_async() const { return first_async_; }

  // Calls `visit(cell)` for each cell of `bytes` from an address on, which may be fewer cells than bytes.
  template <typename Visit>
  void for_each(const void* address, int64_t bytes, Visit visit) {
    auto place = reinterpret_cast<uint64_t>(address);
    const uint64_t end = place + static_cast<uint64_t>(bytes);
    while (place < end) {
      const Recent& page = page_of(place >> kPageBits, place, end - place);
      const uint64_t size = uint64_t{1} << page.bits;
      visit(page.cells[(place & (kPageBytes - 1)) >> page.bits]);
      place += size;
    }
  }

  // Clears the records of some memory.
  void forget(const void* address, int64_t bytes) {
    for_each(address, bytes, [this](Cell& cell) { note(cell, {}); });
  }

  // The cell of exactly these bytes if its page is at hand, else NULL.
  Cell* find(const void* address, int64_t bytes) const {
    const auto place = reinterpret_cast<uint64_t>(address);
    const Recent& recent = recent_[(place >> kPageBits) % kRecent];
    const auto size = static_cast<uint64_t>(bytes);
    if (recent.number != place >> kPageBits || recent.bytes != size || (place & (size - 1)) != 0)
      return nullptr;
    return recent.cells + ((place & (kPageBytes - 1)) >> recent.bits);
  }

  // A cell's history within this launch.
  History history(const Cell& cell) const;
  void set_history(Cell& cell, const History& history);
  // The history is a plain write and a read, or none.
  void note(Cell& cell, const Cell& noted) {
    if (WEFT_UNLIKELY(is_long(cell))) drop(cell);
    cell = noted;
  }
  static bool is_long(const Cell& cell) { return cell.write.bits >> kLongShift == kLong; }
  // The history of a cell that has a long one; NULL if it is an earlier launch's.
  History* find_history(const Cell& cell) {
    const bool is_now = (cell.write.bits & kLaunchMask) == launch_;
    return is_now ? &histories_[static_cast<std::size_t>(cell.read.bits)] : nullptr;
  }

 private:
  static constexpr int kPageBits = 9;
  static constexpr uint64_t kPageBytes = uint64_t{1} << kPageBits;
  static constexpr uint64_t kRecent = 1024;
  static constexpr int kMostBits = 3;  // of a cell: 8 bytes
  // The highest bits of a cell's write where its history is long: of an epoch that no launch comes to. The
  // others are the launch's number, and its read is the place among the histories.
  static constexpr int kLongShift = 62;
  static constexpr uint64_t kLong = 3;
  static constexpr uint64_t kLaunchMask = (uint64_t{1} << kLongShift) - 1;

  struct Page {
    uint64_t launch = 0;
    int bits = 0;  // a cell has this many bits of addresses
    std::vector<Cell> cells;
  };
  // A page that was used lately.
  struct Recent {
    uint64_t number = ~uint64_t{0};  // none's
    Cell* cells = nullptr;
    uint32_t bits = 0, bytes = 1;  // of a cell
  };

  // The page, whose cells fit an access of `bytes` at `place`.
  const Recent& page_of(uint64_t number, uint64_t place, uint64_t bytes) {
    const Recent& recent = recent_[number % kRecent];
    const bool is_there =
        recent.number == number && ((bytes | place) & ((uint64_t{1} << recent.bits) - 1)) == 0;
    return is_there ? recent : find_page(number, place, bytes);
  }
  // The same for any page: a new one, or one whose cells are split.
  const Recent& find_page(uint64_t number, uint64_t place, uint64_t bytes);
  void split(Page& page, int bits);
  void begin(uint64_t epoch, uint64_t async);
  void drop(const Cell& cell);
  Record of_this_launch(const Record& record) const;

  uint64_t launch_ = 1;
  uint64_t first_epoch_ = 1, first_async_ = 1;
  std::unordered_map<uint64_t, Page> pages_;
  std::vector<History> histories_;  // of this launch
  std::vector<uint64_t> free_;      // places among them
  Recent recent_[kRecent] = {};
};

}  // namespace weft

#endif  // WEFT_CPU_SHADOW_H_
