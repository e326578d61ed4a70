// SPDX-License-Identifier: Apache-2.0
//
// Pages of cells, found by address.
#include "cpu/shadow.h"

#include <algorithm>

namespace weft {

Shadow::Page& Shadow::page_of(uint64_t number, uint64_t place, uint64_t bytes) {
  Page*& recent = recent_[number % 256];
  if (recent == nullptr || recent->number != number) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    page->number = number;
    recent = page.get();
  }
  Page& page = *recent;
  if (page.bits >= 0 && (bytes | place) % (uint64_t{1} << page.bits) == 0) return page;
  // The largest power of two that divides both the address and the size.
  const int bits = std::min(kMostBits, __builtin_ctzll(place | bytes));
  if (page.bits < 0) {
    page.bits = bits;
    page.cells.resize(kPageBytes >> bits);
  } else if (bits < page.bits) {
    const int split = page.bits - bits;
    std::vector<Cell> cells(kPageBytes >> bits);
    for (std::size_t cell = 0; cell < cells.size(); ++cell) cells[cell] = page.cells[cell >> split];
    page.cells = std::move(cells);
    page.bits = bits;
  }
  return page;
}

}  // namespace weft
