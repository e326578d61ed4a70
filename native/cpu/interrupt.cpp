// SPDX-License-Identifier: Apache-2.0
//
// Asking Python for signals from native code that holds the GIL, has released it, or never had it.
#include "cpu/interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "python/callbacks/deferred.h"
#include "python/gil.h"

namespace weft {
namespace {

constexpr int64_t kPollNanoseconds = 50'000'000;
// A call that asks again after this long releases the GIL to others.
constexpr int64_t kReleaseNanoseconds = 1'000'000;

// What this thread's CpuCall released. Borrowed from the interpreter.
thread_local PyThreadState* t_released = nullptr;
thread_local CpuCall* t_cpu_call = nullptr;
thread_local int64_t t_last_poll = 0;
thread_local bool t_interrupted = false;

int64_t coarse_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// With the GIL, which others may take in between: only then can a Python thread send a signal.
bool ask_with_gil() {
  PyThreadState* state = PyEval_SaveThread();
  restore_thread(state);
  return PyErr_CheckSignals() != 0;
}

// A handler may run a grid of its own on this thread, which then finds the GIL held.
bool ask_without_gil() {
  PyThreadState* state = t_released;
  t_released = nullptr;
  restore_thread(state);
  const bool raised = PyErr_CheckSignals() != 0;
  t_released = PyEval_SaveThread();
  return raised;
}

// A foreign caller, or one that has released the GIL: tvm_ffi, C++. Python runs handlers only on the main
// thread, so other threads need not ask; nor may they wait for the GIL, whose holder may wait for them.
bool ask_for_foreign_caller() {
  if (syscall(SYS_gettid) != getpid() || !interpreter_is_usable()) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return raised;
}

}  // namespace

CpuCall::CpuCall() : outer_(t_cpu_call) {
  t_cpu_call = this;
  if (outer_ == nullptr) t_interrupted = false;
}

CpuCall::~CpuCall() {
  t_cpu_call = outer_;
  if (!released_) return;
  PyThreadState* state = t_released;
  t_released = nullptr;
  restore_thread(state);
}

void CpuCall::release_gil() {
  if (t_released != nullptr || !caller_holds_gil()) return;
  t_released = PyEval_SaveThread();
  released_ = true;
}

bool signal_raised() {
  CpuCall* call = t_cpu_call;
  const int64_t now = coarse_nanoseconds();
  if (call != nullptr && !call->released_) {
    if (call->first_asked_ == 0) {
      call->first_asked_ = now;
    } else if (now - call->first_asked_ >= kReleaseNanoseconds) {
      call->release_gil();
    }
  }
  if (now - t_last_poll < kPollNanoseconds) return false;
  t_last_poll = now;
  bool raised = false;
  if (t_released != nullptr) {
    raised = ask_without_gil();
  } else if (caller_holds_gil()) {
    raised = ask_with_gil();
  } else {
    raised = ask_for_foreign_caller();
  }
  if (call != nullptr) call->interrupted_ = raised;
  t_interrupted = raised;
  return raised;
}

bool was_interrupted() { return t_interrupted; }

}  // namespace weft
