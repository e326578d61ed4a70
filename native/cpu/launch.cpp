// SPDX-License-Identifier: Apache-2.0
//
// A launch on the CPU: checks its numbers before narrowing them, then hands its blocks to the pool.
#include "cpu/launch.h"

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "cpu/interrupt.h"
#include "cpu/overlap.h"
#include "cpu/pool.h"
#include "cpu/race_detector.h"
#include "cpu/thread_trace.h"
#include "hints.h"
#include "runtime/failure.h"
#include "runtime/launch/launch_hooks.h"
#include "runtime/launch/launch_limits.h"

namespace weft {
namespace {

constexpr char kAxes[] = "xyz";

std::string triple(int64_t linear, const int32_t* sizes) {
  const int64_t x = linear % sizes[0];
  const int64_t y = linear / sizes[0] % sizes[1];
  const int64_t z = linear / sizes[0] / sizes[1];
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

int32_t check_ranges(const weft_launch& launch) {
  const int64_t most_threads = launch.most_threads != 0 ? launch.most_threads : kMostThreads;
  const std::string misfit = launch_misfit(launch.kernel_name, launch, most_threads, kMostShared);
  if (!misfit.empty()) return raise_error("ValueError", misfit);
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t blocks = launch.cluster[axis];
    if (blocks != 0 && launch.grid[axis] % blocks != 0) {
      return raise_error("ValueError", "launch of " + std::string(launch.kernel_name) + ": grid." +
                                           kAxes[axis] + " is " + std::to_string(launch.grid[axis]) +
                                           ", expected a multiple of " + std::to_string(blocks) +
                                           ", the blocks of a cluster along " + kAxes[axis]);
    }
  }
  return 0;
}

// enum weft_coresidency and enum weft_launch_check, of a grid that is known.
int64_t coresidency_of(const weft_launch& launch) {
  if ((launch.coresidency & 3) != WEFT_CORESIDENT_FEW) return launch.coresidency;
  const bool is_cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1;
  const int64_t fewer = is_cluster ? WEFT_CORESIDENT_CLUSTER : WEFT_CORESIDENT_BLOCK;
  const bool few = are_few(launch.grid[0], launch.grid[1], launch.grid[2]);
  return (launch.coresidency & ~int64_t{3}) | (few ? int64_t{WEFT_CORESIDENT_GRID} : fewer);
}

struct CpuLaunch {
  weft_call_frame* frame;
  weft_cpu_kernel kernel;
  const weft_launch* launch;
  const void* parameters;
  int64_t parameter_bytes;
  int64_t scratch_bytes;
  bool has_hooks;  // called before and after each launch, so that it must have ended then
};

// Memory of a launch that is held; one that needs more runs after the launch before it, as do those of many
// blocks.
constexpr int64_t kMostHeldBytes = int64_t{256} << 20;

// Whether all blocks of a launch can be alive, so that it can begin before the launch before it has run.
bool may_begin(const weft_launch& launch, int64_t units, int64_t scratch_bytes, bool whole) {
  int64_t bytes = scratch_bytes;
  if (!whole && __builtin_mul_overflow(units, scratch_bytes, &bytes)) return false;
  return are_few(launch.grid[0], launch.grid[1], launch.grid[2]) && bytes <= kMostHeldBytes;
}

constexpr int64_t kOverlaps = WEFT_LAUNCH_HELD | WEFT_LAUNCH_FOLLOWS | WEFT_LAUNCH_WAITS;

// A launch whose blocks do not meet those of other launches.
int32_t perform_alone(const CpuLaunch& call, weft_cpu_launch& state, int64_t units, int64_t coresidency) {
  const weft_launch& launch = *call.launch;
  const auto run = [&](bool whole) {
    return run_grid({call.kernel, call.parameters, &state, units, call.scratch_bytes, whole});
  };
  if (WEFT_LIKELY(coresidency <= WEFT_CORESIDENT_GRID)) return run(coresidency == WEFT_CORESIDENT_GRID);
  state.orders = static_cast<int32_t>(coresidency) & (WEFT_LAUNCH_ORDERED | WEFT_LAUNCH_BLOCKS);
  if ((coresidency & WEFT_LAUNCH_TRACED) != 0) begin_traced_launch(state);
  const weft_call_frame* owner = (coresidency & WEFT_LAUNCH_SCRATCH) != 0 ? call.frame : nullptr;
  RaceDetector detector(&state, coresidency, launch.cluster, owner);
  state.detector = &detector;
  return detector.finish(run(true));
}

// -1, with the error of a launch set: the launch before it runs nevertheless, unless a signal handler has
// raised.
int32_t fail_after(HeldLaunch* before) {
  if (before != nullptr && !was_interrupted()) before->finish();
  return -1;
}

// One that may overlap with `before`, and with the launch after it.
int32_t perform_overlapping(const CpuLaunch& call, weft_cpu_launch& state, int64_t units, int64_t coresidency,
                            std::unique_ptr<HeldLaunch> before) {
  const weft_launch& launch = *call.launch;
  const bool is_held = (launch.coresidency & WEFT_LAUNCH_HELD) != 0 && !call.has_hooks;
  const bool waits = (launch.coresidency & WEFT_LAUNCH_WAITS) != 0;
  const bool whole = (coresidency & 3) == WEFT_CORESIDENT_GRID;
  const bool begins = waits && before != nullptr && may_begin(launch, units, call.scratch_bytes, whole);
  if (before != nullptr && waits && !begins && before->finish() != 0) return -1;
  if (waits && !begins) before.reset();
  if (units == 0) return before == nullptr ? 0 : before->finish();
  if (!begins && !is_held) {
    // Without a wait, all of it may run before the launch before it does.
    if (perform_alone(call, state, units, coresidency) != 0) return fail_after(before.get());
    return before == nullptr ? 0 : before->finish();
  }
  auto own = std::make_unique<HeldLaunch>(call.kernel, state, call.parameters, call.parameter_bytes, units,
                                          call.scratch_bytes, whole);
  if (begins) {
    if (own->begin() != 0) return fail_after(before.get());
    if (before->finish() != 0) return -1;
    if (!is_held) return own->finish();
  } else if (before != nullptr) {
    own->run_ahead_of(std::move(before));
  }
  hold_launch(std::move(own));
  return 0;
}

int32_t perform(const CpuLaunch& call) {
  try {
    const weft_launch& launch = *call.launch;
    const bool overlaps = (launch.coresidency & kOverlaps) != 0;
    std::unique_ptr<HeldLaunch> before = overlaps ? take_held_launch() : nullptr;
    // One that nothing has followed, since its call has ended with an error, is dropped.
    if ((launch.coresidency & WEFT_LAUNCH_FOLLOWS) == 0) before.reset();
    if (check_ranges(launch) != 0) return fail_after(before.get());
    int64_t units = launch.grid[0] * launch.grid[1] * launch.grid[2];
    if (units == 0 && !overlaps) return 0;
    const int64_t coresidency = coresidency_of(launch) & ~kOverlaps;
    if ((coresidency & 3) == WEFT_CORESIDENT_CLUSTER) {
      units /= launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    }
    weft_cpu_launch state{};
    state.table = call.frame->state->table;
    for (int axis = 0; axis < 3; ++axis) {
      state.grid[axis] = static_cast<int32_t>(launch.grid[axis]);
      state.block[axis] = static_cast<int32_t>(launch.block[axis]);
    }
    state.shared_memory_bytes = static_cast<int32_t>(launch.shared_memory_bytes);
    state.kernel_name = launch.kernel_name;
    if (WEFT_LIKELY(!overlaps)) return perform_alone(call, state, units, coresidency);
    return perform_overlapping(call, state, units, coresidency, std::move(before));
  } catch (const std::bad_alloc&) {
    return raise_error("MemoryError", "no memory for a launch");
  }
}

}  // namespace

int32_t launch_cpu(weft_call_frame* frame, weft_cpu_kernel kernel, const weft_launch* launch,
                   const void* parameters, int64_t parameter_bytes, int64_t scratch_bytes) {
  const bool has_hooks = has_launch_hooks();
  CpuLaunch call{frame, kernel, launch, parameters, parameter_bytes, scratch_bytes, has_hooks};
  if (WEFT_LIKELY(!has_hooks)) return perform(call);
  auto run = [](void* data) { return perform(*static_cast<const CpuLaunch*>(data)); };
  return launch_between_hooks({launch->kernel_name, kDLCPU, 0, nullptr, launch}, run, &call);
}

int32_t kernel_fail(weft_cpu_launch* launch, const weft_failure_site* site, int64_t block, int64_t thread) {
  __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);  // blocks on other threads stop when they see it
  try {
    raise_error("AssertionError", std::string(site->place) + ", in " + launch->kernel_name +
                                      ": assertion failed: " + site->expected + " (block " +
                                      triple(block, launch->grid) + ", thread " +
                                      triple(thread, launch->block) + ")");
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
  return 1;
}

}  // namespace weft
