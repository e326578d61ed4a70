// SPDX-License-Identifier: Apache-2.0
//
// The user's hooks around every launch of compiled functions, and weft's own observer, a capture of the
// profiler. Unset, they cost a launch one flag test.
#ifndef WEFT_RUNTIME_LAUNCH_HOOKS_H_
#define WEFT_RUNTIME_LAUNCH_HOOKS_H_

#include <weft/runtime_table.h>

#include <atomic>

namespace weft {

extern std::atomic<bool> g_has_launch_hooks;  // or an observer
extern std::atomic<bool> g_has_launch_observer;

inline bool has_launch_hooks() { return g_has_launch_hooks.load(std::memory_order_relaxed); }
inline bool has_launch_observer() { return g_has_launch_observer.load(std::memory_order_relaxed); }

// A launch as seen by hooks. `kernel` and the target of `launch` live until `perform` has returned.
struct LaunchFacts {
  const char* kernel;
  int32_t device_type;  // DLDeviceType
  int32_t device;       // ordinal
  void* stream;
  const weft_launch* launch;
};

// The enter hook, `perform(data)`, the exit hook, even after a failed launch. An enter hook that raises
// prevents the launch. Any thread, with or without the GIL. 0, or -1 with the FFI error set.
int32_t launch_between_hooks(const LaunchFacts& facts, int32_t (*perform)(void* data), void* data);

// The same with the observer's two calls only, for launches with their own hooks. Needs the GIL.
int32_t launch_observed(const LaunchFacts& facts, int32_t (*perform)(void* data), void* data);

}  // namespace weft

#endif  // WEFT_RUNTIME_LAUNCH_HOOKS_H_
