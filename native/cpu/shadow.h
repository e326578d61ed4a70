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
#include <unordered_map>
#include <vector>

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

// Of at most 8 bytes. The last plain write, the last atomic one since, and two of the reads since: those that
// no later read comes after.
struct Cell {
  Record write;
  Record atomic;
  Record reads[2];

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
      const Recent& page = page_of(place >> kPageBits, place, end - place);
      const uint64_t size = uint64_t{1} << page.bits;
      visit(page.cells[(place & (kPageBytes - 1)) >> page.bits]);
      place += size;
    }
  }

  // Forgets what is known of some memory.
  void forget(const void* address, int64_t bytes) {
    for_each(address, bytes, [](Cell& cell) { cell = {}; });
  }

  // The cell of exactly these bytes if its page is at hand, else NULL.
  Cell* find(const void* address, int64_t bytes) const {
    const auto place = reinterpret_cast<uint64_t>(address);
    const Recent& recent = recent_[(place >> kPageBits) % kRecent];
    const uint64_t size = uint64_t{1} << recent.bits;
    const bool fits = static_cast<uint64_t>(bytes) == size && (place & (size - 1)) == 0;
    if (recent.number != place >> kPageBits || !fits) return nullptr;
    return recent.cells + ((place & (kPageBytes - 1)) >> recent.bits);
  }

 private:
  static constexpr int kPageBits = 9;
  static constexpr uint64_t kPageBytes = uint64_t{1} << kPageBits;
  static constexpr uint64_t kRecent = 1024;
  static constexpr int kMostBits = 3;  // of a cell: 8 bytes

  struct Page {
    int bits = -1;  // a cell has this many bits of addresses
    std::vector<Cell> cells;
  };
  // A page that was used lately.
  struct Recent {
    uint64_t number = ~uint64_t{0};  // none's
    Cell* cells = nullptr;
    int64_t bits = 0;
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

  std::unordered_map<uint64_t, Page> pages_;
  Recent recent_[kRecent] = {};
};

}  // namespace weft

#endif  // WEFT_CPU_SHADOW_H_
