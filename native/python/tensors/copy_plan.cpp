// SPDX-License-Identifier: Apache-2.0
//
// Axes are sorted by the target's strides, reversed so that those are positive, and joined where both sides
// go on without a gap.
#include "python/tensors/copy_plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/describe.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

constexpr int64_t kChunkBytes = 1 << 16;  // of a fill: stays in the first cache

const int64_t kStill[kMostCopyRank] = {};  // the strides of one element that is read again and again

struct Span {
  const char *begin, *end;
  bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

Span span_of(const CopyPlan& plan, const char* first, int64_t CopyAxis::* stride) {
  Span span{first, first + plan.run};
  for (int axis = 0; axis < plan.rank; ++axis) {
    const int64_t reach = (plan.axes[axis].count - 1) * plan.axes[axis].*stride;
    (reach < 0 ? span.begin : span.end) += reach;
  }
  return span;
}

// A run of that many bytes, or of any number for 0.
template <size_t kRun>
void copy_runs(const CopyAxis& axis, size_t run, char* to, const char* from) {
  for (int64_t index = 0; index < axis.count; ++index, to += axis.to, from += axis.from) {
    std::memcpy(to, from, kRun == 0 ? run : kRun);
  }
}

void copy_innermost(const CopyPlan& plan, char* to, const char* from) {
  const auto run = static_cast<size_t>(plan.run);
  switch (run) {
    case 1:
      return copy_runs<1>(plan.axes[0], run, to, from);
    case 2:
      return copy_runs<2>(plan.axes[0], run, to, from);
    case 4:
      return copy_runs<4>(plan.axes[0], run, to, from);
    case 8:
      return copy_runs<8>(plan.axes[0], run, to, from);
    default:
      return copy_runs<0>(plan.axes[0], run, to, from);
  }
}

void copy_axes(const CopyPlan& plan, int rank, char* to, const char* from) {
  if (rank == 0) std::memcpy(to, from, static_cast<size_t>(plan.run));
  if (rank == 1) copy_innermost(plan, to, from);
  if (rank < 2) return;
  const CopyAxis& axis = plan.axes[rank - 1];
  for (int64_t index = 0; index < axis.count; ++index, to += axis.to, from += axis.from) {
    copy_axes(plan, rank - 1, to, from);
  }
}

bool add_axis(CopyPlan* plan, CopyAxis axis) {
  if (axis.to < 0) {
    plan->to += (axis.count - 1) * axis.to;
    plan->from += (axis.count - 1) * axis.from;
    axis.to = -axis.to;
    axis.from = -axis.from;
  }
  int place = plan->rank++;
  for (; place > 0 && plan->axes[place - 1].to > axis.to; --place) plan->axes[place] = plan->axes[place - 1];
  plan->axes[place] = axis;
  return !__builtin_mul_overflow(plan->bytes, axis.count, &plan->bytes);
}

// Whether each axis steps over all that the inner ones reach: then no two elements share a byte.
bool is_injective(const CopyPlan& plan) {
  int64_t reach = plan.run;
  for (int axis = 0; axis < plan.rank; ++axis) {
    if (plan.axes[axis].to < reach) return false;
    reach += (plan.axes[axis].count - 1) * plan.axes[axis].to;
  }
  return true;
}

void join_axes(CopyPlan* plan) {
  const int rank = plan->rank;
  plan->rank = 0;
  for (int index = 0; index < rank; ++index) {
    const CopyAxis axis = plan->axes[index];
    CopyAxis* inner = plan->rank == 0 ? nullptr : &plan->axes[plan->rank - 1];
    if (inner == nullptr && axis.to == plan->run && axis.from == plan->run) {
      plan->run *= axis.count;
    } else if (inner != nullptr && axis.to == inner->to * inner->count &&
               axis.from == inner->from * inner->count) {
      inner->count *= axis.count;
    } else {
      plan->axes[plan->rank++] = axis;
    }
  }
}

void fill_run(char* to, int64_t bytes, const char* element, int64_t item) {
  if (std::all_of(element, element + item, [element](char byte) { return byte == *element; })) {
    std::memset(to, *element, static_cast<size_t>(bytes));
    return;
  }
  const int64_t chunk = std::min(bytes, kChunkBytes / item * item);
  for (int64_t done = 0; done < chunk; done += item) {
    std::memcpy(to + done, element, static_cast<size_t>(item));
  }
  for (int64_t done = chunk; done < bytes; done += chunk) {
    std::memcpy(to + done, to, static_cast<size_t>(std::min(chunk, bytes - done)));
  }
}

}  // namespace

int64_t item_bytes(DLDataType type) { return (int64_t{type.bits} * type.lanes + 7) / 8; }

bool CopyPlan::overlaps() const {
  return span_of(*this, to, &CopyAxis::to).meets(span_of(*this, from, &CopyAxis::from));
}

void CopyPlan::run_on_host() const { copy_axes(*this, rank, to, from); }

int plan_copy(const DLTensor& to, const DLTensor& from, CopyPlan* plan) {
  if (to.dtype.bits * to.dtype.lanes % 8 != 0) {
    return refuse(PyExc_TypeError, "expected elements of whole bytes, received a tensor of %s",
                  describe_dtype(to.dtype).c_str());
  }
  if (to.ndim > kMostCopyRank) {
    return refuse(PyExc_ValueError, "expected a tensor of rank at most %d, received rank %d", kMostCopyRank,
                  static_cast<int>(to.ndim));
  }
  const int64_t item = item_bytes(to.dtype);
  *plan = {first_element(to), first_element(from), item, item, 0, {}};
  int64_t dense = item;
  bool fits = true;
  for (int32_t axis = to.ndim; axis-- > 0;) {
    const int64_t count = to.shape[axis];
    if (count == 0) plan->bytes = 0;
    if (count > 1) {
      fits = add_axis(plan, {count, to.strides == nullptr ? dense : to.strides[axis] * item,
                             from.strides == nullptr ? dense : from.strides[axis] * item}) &&
             fits;
      dense = static_cast<int64_t>(static_cast<uint64_t>(dense) * static_cast<uint64_t>(count));
    }
  }
  if (plan->bytes == 0) return 0;
  if (!fits || !is_injective(*plan)) {
    return refuse(PyExc_ValueError,
                  "expected a target whose elements have memory of their own, received one of shape %s whose "
                  "strides let them overlap",
                  describe_shape(to).c_str());
  }
  join_axes(plan);
  return 0;
}

int copy_on_host(const DLTensor& to, const DLTensor& from) {
  CopyPlan plan;
  if (plan_copy(to, from, &plan) != 0) return -1;
  if (plan.bytes == 0) return 0;
  const bool through = plan.rank > 0 && plan.overlaps();
  DLTensor between = to;
  between.byte_offset = 0;
  between.strides = nullptr;
  between.data = through ? std::malloc(static_cast<size_t>(plan.bytes)) : nullptr;
  if (through && between.data == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  CopyPlan first;
  if (through && (plan_copy(between, from, &first) != 0 || plan_copy(to, between, &plan) != 0)) {
    std::free(between.data);
    return -1;
  }
  const WithoutGil released;
  if (through) first.run_on_host();
  if (plan.rank == 0) {
    std::memmove(plan.to, plan.from, static_cast<size_t>(plan.run));
  } else {
    plan.run_on_host();
  }
  std::free(between.data);
  return 0;
}

int fill_on_host(const DLTensor& to, const char* element) {
  DLTensor still = to;
  still.data = const_cast<char*>(element);
  still.byte_offset = 0;
  still.strides = const_cast<int64_t*>(kStill);
  CopyPlan plan;
  if (plan_copy(to, still, &plan) != 0) return -1;
  if (plan.bytes == 0) return 0;
  const WithoutGil released;
  if (plan.rank == 1 && plan.axes[0].to == plan.run) {
    fill_run(plan.to, plan.bytes, element, plan.run);
  } else {
    plan.run_on_host();
  }
  return 0;
}

}  // namespace weft
