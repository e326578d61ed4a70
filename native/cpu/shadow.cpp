// SPDX-License-Identifier: Apache-2.0
//
// Pages of cells, found by address.
#include "cpu/shadow.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

constexpr std::size_t kMostKept = 4096;  // pages

// Cells of launches that have ended: fresh memory costs more than to clear what the thread has.
thread_local std::vector<std::vector<Cell>> t_kept;

std::vector<Cell> cells_of(std::size_t count) {
  std::vector<Cell> cells;
  if (!t_kept.empty()) {
    cells = std::move(t_kept.back());
    t_kept.pop_back();
  }
  cells.assign(count, Cell{});
  return cells;
}

}  // namespace

Shadow::~Shadow() {
  for (auto& entry : pages_) {
    if (t_kept.size() >= kMostKept) return;
    t_kept.push_back(std::move(entry.second.cells));
  }
}

const Shadow::Recent& Shadow::find_page(uint64_t number, uint64_t place, uint64_t bytes) {
  Page& page = pages_[number];
  // The largest power of two that divides both the address and the size.
  const int bits = std::min(kMostBits, __builtin_ctzll(place | bytes));
  if (page.bits < 0) {
    page.cells = cells_of(kPageBytes >> bits);
    page.bits = bits;
  } else if (bits < page.bits) {
    const int split = page.bits - bits;
    std::vector<Cell> cells = cells_of(kPageBytes >> bits);
    for (std::size_t cell = 0; cell < cells.size(); ++cell) cells[cell] = page.cells[cell >> split];
    page.cells = std::move(cells);
    page.bits = bits;
  }
  return recent_[number % kRecent] = {number, page.cells.data(), page.bits};
}

}  // namespace weft
