// SPDX-License-Identifier: Apache-2.0
//
// What the user wants to be called around every launch of compiled functions, and the observer, which is
// weft's own: a capture of the profiler. Unset, they cost a launch the reading of one flag.
#ifndef WEFT_RUNTIME_LAUNCH_HOOKS_H_
#define WEFT_RUNTIME_LAUNCH_HOOKS_H_

#include <weft/runtime_table.h>

#include <atomic>

namespace weft {

extern std::atomic<bool> g_has_launch_hooks;  // or an observer
extern std::atomic<bool> g_has_launch_observer;

inline bool has_launch_hooks() { return g_has_launch_hooks.load(std::memory_order_relaxed); }
inline bool has_launch_observer() { return g_has_launch_observer.load(std::memory_order_relaxed); }

// What a hook can ask about a launch. `kernel` and what `launch` points at live until `perform` has returned.
struct LaunchFacts {
  const char* kernel;
  int32_t device_type;  // DLDeviceType
  int32_t device;       // ordinal
  void* stream;
  const weft_launch* launch;
};

// The enter hook, `perform(data)`, the exit hook, also after a launch that failed. An enter hook that raises
// prevents the launch. Any thread, with or without the GIL. 0, or -1 with the FFI error set.
int32_t launch_between_hooks(const LaunchFacts& facts, int32_t (*perform)(void* data), void* data);

// The observer's two calls alone, for launches that take hooks of their own. The same otherwise, with the
// GIL.
int32_t launch_observed(const LaunchFacts& facts, int32_t (*perform)(void* data), void* data);

}  // namespace weft

#endif  // WEFT_RUNTIME_LAUNCH_HOOKS_H_
