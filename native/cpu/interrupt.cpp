// SPDX-License-Identifier: Apache-2.0
//
// Asking Python for signals from native code that holds the GIL, or has released it here.
#include "cpu/interrupt.h"

#include <cstdint>
#include <ctime>

#include "python/gil.h"

namespace weft {
namespace {

constexpr int64_t kPollNanoseconds = 50'000'000;

// What this thread released, while a GilRelease is alive. Borrowed from the interpreter.
thread_local PyThreadState* t_released = nullptr;
thread_local int64_t t_last_poll = 0;

int64_t coarse_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

GilRelease::GilRelease() : released_(t_released == nullptr && caller_holds_gil()) {
  if (released_) t_released = PyEval_SaveThread();
}

GilRelease::~GilRelease() {
  if (!released_) return;
  PyThreadState* state = t_released;
  t_released = nullptr;
  PyEval_RestoreThread(state);
}

bool watches_signals() { return t_released != nullptr || caller_holds_gil(); }

bool signal_raised() {
  const int64_t now = coarse_nanoseconds();
  if (now - t_last_poll < kPollNanoseconds) return false;
  t_last_poll = now;
  if (t_released == nullptr) return caller_holds_gil() && PyErr_CheckSignals() != 0;
  // A handler may launch a grid of its own on this thread, which then finds the GIL held.
  PyThreadState* state = t_released;
  t_released = nullptr;
  PyEval_RestoreThread(state);
  const bool raised = PyErr_CheckSignals() != 0;
  t_released = PyEval_SaveThread();
  return raised;
}

bool exception_pending() { return caller_holds_gil() && PyErr_Occurred() != nullptr; }

}  // namespace weft
