// SPDX-License-Identifier: Apache-2.0
//
// Shuffles, votes, matches and reductions over up to 32 posted values.
#include "cpu/collectives.h"

#include <type_traits>
#include <utility>

#include "cpu/mma.h"
#include "cpu/small_floats.h"

namespace weft {
namespace {

template <typename Visit>
void for_each_lane(uint32_t lanes, Visit visit) {
  for (uint32_t left = lanes; left != 0; left &= left - 1) visit(__builtin_ctz(left));
}

// The lane that `lane` reads, or itself if the group has no such lane. As in PTX's shfl, the argument is
// taken modulo 32; `up` stops at the group's first lane, `down` and `xor` at its last, `idx` wraps inside the
// group.
int shuffle_source(int operation, int lane, int argument, int width) {
  const int first = lane & ~(width - 1);
  const int last = first + width - 1;
  const int low_bits = argument & (kWarpSize - 1);
  int source = first + (argument & (width - 1));
  if (operation == WEFT_COOPERATIVE_shuffle_up) source = lane - low_bits;
  if (operation == WEFT_COOPERATIVE_shuffle_down) source = lane + low_bits;
  if (operation == WEFT_COOPERATIVE_shuffle_xor) source = lane ^ low_bits;
  const bool below = operation == WEFT_COOPERATIVE_shuffle_up && source < first;
  return below || source > last ? lane : source;
}

void shuffle(const Warp& warp, uint32_t lanes, const weft_cooperative_site& site) {
  for_each_lane(lanes, [&](int lane) {
    weft_thread_slot& slot = warp[lane];
    const int source = shuffle_source(site.operation, lane, slot.lane, site.width);
    // A lane outside the mask has no value: CUDA leaves the result undefined, here it is the lane's own.
    slot.result = (lanes >> source & 1) != 0 ? warp[source].value : slot.value;
  });
}

void vote(const Warp& warp, uint32_t lanes, int operation) {
  uint32_t ballot = 0;
  for_each_lane(lanes, [&](int lane) { ballot |= uint32_t{warp[lane].value != 0} << lane; });
  const uint64_t result = operation == WEFT_COOPERATIVE_vote_ballot ? ballot
                          : operation == WEFT_COOPERATIVE_vote_any  ? ballot != 0
                                                                    : ballot == lanes;
  for_each_lane(lanes, [&](int lane) { warp[lane].result = result; });
}

// The lane with the lowest number.
void elect(const Warp& warp, uint32_t lanes) {
  bool is_first = true;
  for_each_lane(lanes, [&](int lane) { warp[lane].result = std::exchange(is_first, false); });
}

void match(const Warp& warp, uint32_t lanes, bool all) {
  for_each_lane(lanes, [&](int lane) {
    uint32_t equal = 0;
    for_each_lane(lanes,
                  [&](int other) { equal |= uint32_t{warp[other].value == warp[lane].value} << other; });
    warp[lane].result = all && equal != lanes ? 0 : equal;
  });
}

// The operand of a reduction that is not NaN, if any: IEEE minNum and maxNum, as in PTX's min and max.
template <typename Value>
Value smaller(Value a, Value b) {
  if (a != a) return b;
  return b < a ? b : a;
}
template <typename Value>
Value larger(Value a, Value b) {
  if (a != a) return b;
  return b > a ? b : a;
}

template <typename Value>
Value combine(int operation, Value a, Value b) {
  if constexpr (std::is_floating_point_v<Value>) {
    switch (operation) {
      case WEFT_COOPERATIVE_reduce_add:
        return a + b;
      case WEFT_COOPERATIVE_reduce_min:
        return smaller(a, b);
      default:
        return larger(a, b);
    }
  } else {
    using Unsigned = std::make_unsigned_t<Value>;
    const auto ua = static_cast<Unsigned>(a);
    const auto ub = static_cast<Unsigned>(b);
    switch (operation) {
      case WEFT_COOPERATIVE_reduce_add:
        return static_cast<Value>(static_cast<Unsigned>(ua + ub));
      case WEFT_COOPERATIVE_reduce_min:
        return b < a ? b : a;
      case WEFT_COOPERATIVE_reduce_max:
        return b > a ? b : a;
      case WEFT_COOPERATIVE_reduce_umin:
        return static_cast<Value>(ub < ua ? ub : ua);
      case WEFT_COOPERATIVE_reduce_umax:
        return static_cast<Value>(ub > ua ? ub : ua);
      case WEFT_COOPERATIVE_reduce_and:
        return static_cast<Value>(ua & ub);
      case WEFT_COOPERATIVE_reduce_or:
        return static_cast<Value>(ua | ub);
      default:
        return static_cast<Value>(ua ^ ub);
    }
  }
}

// Combines adjacent lanes of the mask, then adjacent values among the results, and so on; a value
// without a partner is kept. `round` after each step matches the arithmetic of narrow floats.
template <typename Value, typename Load, typename Store, typename Round>
void combine_lanes(const Warp& warp, uint32_t lanes, int operation, Load load, Store store, Round round) {
  Value values[kWarpSize];
  int count = 0;
  for_each_lane(lanes, [&](int lane) { values[count++] = load(warp[lane].value); });
  while (count > 1) {
    const int pairs = count / 2;
    for (int pair = 0; pair < pairs; ++pair) {
      values[pair] = round(combine(operation, values[2 * pair], values[2 * pair + 1]));
    }
    if (count % 2 != 0) values[pairs] = values[count - 1];
    count -= pairs;
  }
  for_each_lane(lanes, [&](int lane) { warp[lane].result = store(values[0]); });
}

template <typename Value>
void reduce(const Warp& warp, uint32_t lanes, int operation) {
  combine_lanes<Value>(warp, lanes, operation, value_of<Value>, bits_of<Value>,
                       [](Value value) { return value; });
}

void reduce_any(const Warp& warp, uint32_t lanes, const weft_cooperative_site& site) {
  const int operation = site.operation;
  switch (site.value_type) {
    case WEFT_VALUE_F16:
      return combine_lanes<float>(warp, lanes, operation, float_of_f16, f16_of_float,
                                  [](float value) { return float_of_f16(f16_of_float(value)); });
    case WEFT_VALUE_BF16:
      return combine_lanes<float>(warp, lanes, operation, float_of_bf16, bf16_of_float,
                                  [](float value) { return float_of_bf16(bf16_of_float(value)); });
    case WEFT_VALUE_F32:
      return reduce<float>(warp, lanes, operation);
    case WEFT_VALUE_F64:
      return reduce<double>(warp, lanes, operation);
    case 8:
      return reduce<int8_t>(warp, lanes, operation);
    case 16:
      return reduce<int16_t>(warp, lanes, operation);
    case 32:
      return reduce<int32_t>(warp, lanes, operation);
    default:
      return reduce<int64_t>(warp, lanes, operation);
  }
}

}  // namespace

bool is_shuffle(int operation) {
  return operation == WEFT_COOPERATIVE_shuffle_up || operation == WEFT_COOPERATIVE_shuffle_down ||
         operation == WEFT_COOPERATIVE_shuffle_xor || operation == WEFT_COOPERATIVE_shuffle_idx;
}

void compute_collective(const Warp& warp, uint32_t lanes, const weft_cooperative_site& site) {
  switch (site.operation) {
    case WEFT_COOPERATIVE_warp_barrier:
      return;
    case WEFT_COOPERATIVE_shuffle_up:
    case WEFT_COOPERATIVE_shuffle_down:
    case WEFT_COOPERATIVE_shuffle_xor:
    case WEFT_COOPERATIVE_shuffle_idx:
      return shuffle(warp, lanes, site);
    case WEFT_COOPERATIVE_vote_ballot:
    case WEFT_COOPERATIVE_vote_any:
    case WEFT_COOPERATIVE_vote_all:
      return vote(warp, lanes, site.operation);
    case WEFT_COOPERATIVE_mma:
      return multiply_fragments(warp);
    case WEFT_COOPERATIVE_elect_one:
      return elect(warp, lanes);
    case WEFT_COOPERATIVE_match_any:
    case WEFT_COOPERATIVE_match_all:
      return match(warp, lanes, site.operation == WEFT_COOPERATIVE_match_all);
    default:
      return reduce_any(warp, lanes, site);
  }
}

}  // namespace weft
