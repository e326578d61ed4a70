// SPDX-License-Identifier: Apache-2.0
//
// Signals, and other Python threads, while a grid runs. The calling thread asks periodically whether a signal
// handler wants to raise. A call from Python holds the GIL at first; a long one releases it until its end.
// Callers without Python on threads other than the main one are left alone.
#ifndef WEFT_CPU_INTERRUPT_H_
#define WEFT_CPU_INTERRUPT_H_

#include <cstdint>

namespace weft {

// On the stack of a thread while it runs a grid for its caller.
class CpuCall {
 public:
  CpuCall();
  ~CpuCall();
  CpuCall(const CpuCall&) = delete;
  CpuCall& operator=(const CpuCall&) = delete;

  // Releases the GIL until the end of the call, if Python called this thread with it.
  void release_gil();
  // Whether a signal handler has raised in this call. The exception stays pending.
  bool interrupted() const { return interrupted_; }

 private:
  friend bool signal_raised();
  CpuCall* outer_;  // of this thread: a signal handler may run a grid
  int64_t first_asked_ = 0;
  bool released_ = false;
  bool interrupted_ = false;
};

// Runs pending signal handlers, with the GIL. True when one of them raised: the grid must stop. Reads the
// clock each time and asks Python at most every 50 ms, so frequent calls are cheap.
bool signal_raised();

// Whether one had raised when this thread's last grid asked.
bool was_interrupted();

}  // namespace weft

#endif  // WEFT_CPU_INTERRUPT_H_
