// SPDX-License-Identifier: Apache-2.0
//
// Orders are made by a generator of its own, so that a seed means the same with every C++ library.
#include "cpu/order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace weft {
namespace {

thread_local LaunchOrder t_order;
thread_local WriterQuestion t_question;

// splitmix64, see Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

}  // namespace

LaunchOrder& launch_order() { return t_order; }

WriterQuestion& writer_question() { return t_question; }

std::vector<int64_t> permuted(RunOrder order, uint64_t seed, int64_t count) {
  std::vector<int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  if (order == RunOrder::kBackward) std::reverse(numbers.begin(), numbers.end());
  if (order != RunOrder::kRandom) return numbers;
  for (std::size_t left = numbers.size(); left > 1; --left) {
    std::swap(numbers[left - 1], numbers[next_random(seed) % left]);
  }
  return numbers;
}

}  // namespace weft
