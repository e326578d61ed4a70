// SPDX-License-Identifier: Apache-2.0
//
// Pages of cells, found by address, and the histories that cells have no room for.
#include "cpu/shadow.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cpu/epochs.h"

namespace weft {
namespace {

constexpr std::size_t kMostPages = 4096;         // that a thread keeps for its next launch
constexpr std::size_t kMostHistories = 1 << 16;  // the same
constexpr uint64_t kMostEpochs =
    uint64_t{1} << 37;  // of threads, and of asynchronous operations: half of a record's range

// Reusing the thread's memory is cheaper than allocating.
thread_local std::unique_ptr<Shadow> t_kept;

}  // namespace

std::unique_ptr<Shadow> Shadow::take() noexcept {
  if (t_kept != nullptr) return std::move(t_kept);
  return std::unique_ptr<Shadow>(new (std::nothrow) Shadow);
}

void Shadow::give_back(std::unique_ptr<Shadow> shadow, uint64_t epoch, uint64_t async) noexcept {
  if (shadow == nullptr || shadow->pages_.size() > kMostPages) return;
  if (std::max(epoch, async) > kMostEpochs) return;
  shadow->begin(epoch, async);
  t_kept = std::move(shadow);
}

void Shadow::begin(uint64_t epoch, uint64_t async) {
  ++launch_;
  first_epoch_ = epoch;
  first_async_ = async;
  histories_.clear();
  free_.clear();
  if (histories_.capacity() > kMostHistories) histories_ = {};
  std::fill_n(recent_, kRecent, Recent{});
}

Record Shadow::of_this_launch(const Record& record) const {
  const uint64_t epoch = record.epoch();
  const bool is_now =
      Epochs::is_async(epoch) ? (epoch & ~Epochs::kAsync) >= first_async_ : epoch >= first_epoch_;
  return is_now ? record : Record{};
}

History Shadow::history(const Cell& cell) const {
  History found;
  if (is_long(cell)) {
    const bool is_now = (cell.write.bits & kLaunchMask) == launch_;
    if (is_now) found = histories_[static_cast<std::size_t>(cell.read.bits)];
    return found;
  }
  found.write = of_this_launch(cell.write);
  found.reads[0] = of_this_launch(cell.read);
  return found;
}

void Shadow::set_history(Cell& cell, const History& history) {
  History* own = is_long(cell) ? find_history(cell) : nullptr;
  const bool is_short =
      history.atomic.bits == 0 && std::all_of(history.reads + 1, history.reads + History::kReads,
                                              [](const Record& read) { return read.bits == 0; });
  if (is_short) {
    note(cell, {history.write, history.reads[0]});
  } else if (own != nullptr) {
    *own = history;
  } else {
    uint64_t place = histories_.size();
    if (free_.empty()) {
      histories_.push_back(history);
      free_.reserve(histories_.capacity());  // so that nothing throws when one is dropped
    } else {
      place = free_.back();
      free_.pop_back();
      histories_[static_cast<std::size_t>(place)] = history;
    }
    cell = {{kLong << kLongShift | launch_}, {place}};
  }
}

void Shadow::drop(const Cell& cell) {
  if (find_history(cell) != nullptr) free_.push_back(cell.read.bits);
}

void Shadow::split(Page& page, int bits) {
  const int by = page.bits - bits;
  std::vector<Cell> cells(kPageBytes >> bits);
  for (std::size_t place = 0; place < cells.size(); ++place) {
    const Cell& whole = page.cells[place >> by];
    if (is_long(whole)) {
      set_history(cells[place], history(whole));
    } else {
      cells[place] = whole;
    }
  }
  page.cells = std::move(cells);
  page.bits = bits;
}

const Shadow::Recent& Shadow::find_page(uint64_t number, uint64_t place, uint64_t bytes) {
  Page& page = pages_[number];
  // The largest power of two that divides both the address and the size.
  const int bits = std::min(kMostBits, __builtin_ctzll(place | bytes));
  if (page.launch != launch_) {
    // Records of an earlier launch are not taken for this one's, whatever the size of the cells was.
    page.cells.resize(std::max<std::size_t>(page.cells.size(), kPageBytes >> bits));
    page.launch = launch_;
    page.bits = bits;
  } else if (bits < page.bits) {
    split(page, bits);
  }
  return recent_[number % kRecent] = {number, page.cells.data(), static_cast<uint32_t>(page.bits),
                                      uint32_t{1} << page.bits};
}

}  // namespace weft
