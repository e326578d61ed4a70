// SPDX-License-Identifier: Apache-2.0
//
// Events, one after the other. Texts are copied once: they end with their image.
#include "cpu/thread_trace.h"

#include <memory>
#include <new>
#include <utility>

namespace weft {
namespace {

// A pointer: thread-local memory of a library is scarce, and libraries that are loaded later need a part of
// it.
thread_local std::unique_ptr<ThreadTrace> t_trace;

// A place's number, x fastest; -1 if it is outside of the sizes.
int64_t linear(const int64_t* place, const int32_t* sizes) {
  for (int axis = 0; axis < 3; ++axis) {
    if (place[axis] < 0 || place[axis] >= sizes[axis]) return -1;
  }
  return place[0] + sizes[0] * (place[1] + sizes[1] * place[2]);
}

}  // namespace

void start_thread_trace(const int64_t* block, const int64_t* thread, std::size_t most) {
  t_trace = std::make_unique<ThreadTrace>(block, thread, most);
}

std::unique_ptr<ThreadTrace> take_thread_trace() noexcept { return std::move(t_trace); }

ThreadTrace::ThreadTrace(const int64_t* block, const int64_t* thread, std::size_t most)
    : block_{block[0], block[1], block[2]}, thread_{thread[0], thread[1], thread[2]}, most_(most) {}

void ThreadTrace::begin(const weft_cpu_launch& launch) {
  linear_block_ = linear(block_, launch.grid);
  linear_thread_ = linear(thread_, launch.block);
  known_.clear();
  launches_.push_back({launch.kernel_name,
                       {launch.grid[0], launch.grid[1], launch.grid[2]},
                       {launch.block[0], launch.block[1], launch.block[2]}});
}

void ThreadTrace::add(const char* text, int64_t block, int64_t thread, const int64_t* values,
                      int32_t count) noexcept {
  if (block != linear_block_ || thread != linear_thread_) return;
  if (dropped_ != 0 || events_.size() >= most_) {
    ++dropped_;
    return;
  }
  try {
    const std::string*& known = known_[text];
    if (known == nullptr) known = &texts_.emplace_back(text);
    events_.push_back({static_cast<int32_t>(launches_.size()) - 1, known, {values, values + count}});
  } catch (const std::bad_alloc&) {
    ++dropped_;
  }
}

void begin_traced_launch(const weft_cpu_launch& launch) {
  if (t_trace != nullptr) t_trace->begin(launch);
}

void thread_event(weft_cpu_launch*, const char* text, int64_t block, int64_t thread, const int64_t* values,
                  int32_t count) {
  if (t_trace != nullptr) t_trace->add(text, block, thread, values, count);
}

}  // namespace weft
