// SPDX-License-Identifier: Apache-2.0
//
// Launches that are held between two calls of `launch_cpu`.
#include "cpu/overlap.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "cpu/interrupt.h"
#include "cpu/pool.h"

namespace weft {
namespace {

constexpr int64_t kParameterAlignment = 128;  // of tensor maps, and more

// Of the thread that calls a host function. A launch is held only if the same call launches another one.
thread_local std::unique_ptr<HeldLaunch> t_held;

}  // namespace

OwnedMemory allocate_aligned(int64_t bytes, int64_t alignment) {
  const int64_t size = (std::max<int64_t>(bytes, 1) + alignment - 1) & -alignment;
  return OwnedMemory(
      static_cast<char*>(std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size))));
}

HeldLaunch::HeldLaunch(weft_cpu_kernel kernel, const weft_cpu_launch& state, const void* parameters,
                       int64_t parameter_bytes, int64_t units, int64_t scratch_bytes, bool whole)
    : kernel_(kernel),
      state_(state),
      parameters_(allocate_aligned(parameter_bytes, kParameterAlignment)),
      units_(units),
      scratch_bytes_(scratch_bytes),
      whole_(whole) {
  if (parameters_ == nullptr) throw std::bad_alloc();
  if (parameter_bytes > 0) std::memcpy(parameters_.get(), parameters, static_cast<size_t>(parameter_bytes));
}

int32_t HeldLaunch::begin() {
  state_.overlap = &overlap_;
  const CpuCall asks_for_signals;
  const int64_t blocks = int64_t{state_.grid[0]} * state_.grid[1] * state_.grid[2];
  return kernel_(parameters_.get(), &state_, 0, blocks, nullptr) == 0 ? 0 : -1;
}

int32_t HeldLaunch::finish() {
  if (overlap_.blocks == nullptr) {
    const int32_t code = run_grid({kernel_, parameters_.get(), &state_, units_, scratch_bytes_, whole_});
    if (before_ == nullptr || (code != 0 && was_interrupted())) return code;
    return before_->finish() == 0 ? code : -1;
  }
  overlap_.is_held = false;
  const CpuCall asks_for_signals;
  return overlap_.blocks->finish() == 0 ? 0 : -1;
}

std::unique_ptr<HeldLaunch> take_held_launch() { return std::move(t_held); }

void hold_launch(std::unique_ptr<HeldLaunch> launch) { t_held = std::move(launch); }

}  // namespace weft
