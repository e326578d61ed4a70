// SPDX-License-Identifier: Apache-2.0
//
// Who wrote and read each piece of memory last, kept beside it by address.
//
// Memory is noted in cells of one element each: a page begins with cells as large as its first access and
// splits them when a smaller one comes.
#ifndef WEFT_CPU_SHADOW_H_
#define WEFT_CPU_SHADOW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace weft {

// An access: by whom, in which epoch, at which place of the kernel.
struct Record {
  uint64_t who = 0;  // block + 1, and in the lowest 16 bits the thread; 0: none
  uint32_t epoch = 0;
  int32_t site = 0;  // from the launch's first site, in units of 8 bytes

  static uint64_t name(int64_t block, int32_t thread) {
    return static_cast<uint64_t>(block + 1) << 16 | static_cast<uint16_t>(thread);
  }
  int64_t block() const { return static_cast<int64_t>(who >> 16) - 1; }
  int32_t thread() const { return static_cast<int32_t>(who & 0xFFFF); }
};

// Of at most 8 bytes. The last plain write, the last atomic one since, and two of the reads since: those that
// no later read comes after.
struct Cell {
  Record write;
  Record atomic;
  Record reads[2];

  bool is_written() const { return write.who != 0 || atomic.who != 0; }
  const Record& any() const { return write.who != 0 ? write : atomic.who != 0 ? atomic : reads[0]; }

  // Adds a read; `is_past(record)`: that read comes before it.
  template <typename IsPast>
  void add_read(const Record& read, IsPast is_past) {
    for (Record& other : reads) {
      if (other.who != 0 && other.who != read.who && !is_past(other)) continue;
      other = read;
      return;
    }
    reads[1] = read;  // the first stays, and the last
  }
};

class Shadow {
 public:
  Shadow() = default;
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;
  // Leaves some cells for the thread's next launch.
  ~Shadow();

  // Calls `visit(cell)` for each cell of `bytes` from an address on, which may be fewer cells than bytes.
  template <typename Visit>
  void for_each(const void* address, int64_t bytes, Visit visit) {
    auto place = reinterpret_cast<uint64_t>(address);
    const uint64_t end = place + static_cast<uint64_t>(bytes);
    while (place < end) {
      Page& page = page_of(place >> kPageBits, place, end - place);
      const uint64_t size = uint64_t{1} << page.bits;
      visit(page.cells[(place & (kPageBytes - 1)) >> page.bits]);
      place += size;
    }
  }

  // Forgets what is known of some memory.
  void forget(const void* address, int64_t bytes) {
    for_each(address, bytes, [](Cell& cell) { cell = {}; });
  }

 private:
  static constexpr int kPageBits = 9;
  static constexpr uint64_t kPageBytes = uint64_t{1} << kPageBits;
  static constexpr uint64_t kRecent = 4096;
  static constexpr int kMostBits = 3;  // of a cell: 8 bytes

  struct Page {
    uint64_t number = 0;
    int bits = -1;  // a cell has this many bits of addresses
    std::vector<Cell> cells;
  };

  // The page, whose cells fit an access of `bytes` at `place`.
  Page& page_of(uint64_t number, uint64_t place, uint64_t bytes) {
    Page* recent = recent_[number % kRecent];
    const bool is_there = recent != nullptr && recent->number == number &&
                          ((bytes | place) & ((uint64_t{1} << recent->bits) - 1)) == 0;
    return is_there ? *recent : find_page(number, place, bytes);
  }
  // The same for any page: a new one, or one whose cells are split.
  Page& find_page(uint64_t number, uint64_t place, uint64_t bytes);

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  Page* recent_[kRecent] = {};
};

}  // namespace weft

#endif  // WEFT_CPU_SHADOW_H_
