// SPDX-License-Identifier: Apache-2.0
//
// Signals, and other Python threads, while a grid runs. The calling thread asks now and then whether a
// signal's handler wants to raise. A call from Python holds the GIL at first; one that takes long gives it
// away until its end. Callers without Python on other threads than the main one are left alone.
#ifndef WEFT_CPU_INTERRUPT_H_
#define WEFT_CPU_INTERRUPT_H_

#include <cstdint>

namespace weft {

// Stands on the stack of a thread that runs a grid for its caller, for as long as that takes.
class CpuCall {
 public:
  CpuCall();
  ~CpuCall();
  CpuCall(const CpuCall&) = delete;
  CpuCall& operator=(const CpuCall&) = delete;

  // Releases the GIL until the end of the call, if Python called this thread with it.
  void release_gil();
  // Whether a signal's handler has raised in this call. The exception stays pending.
  bool interrupted() const { return interrupted_; }

 private:
  friend bool signal_raised();
  CpuCall* outer_;  // of this thread: a signal's handler may run a grid
  int64_t first_asked_ = 0;
  bool released_ = false;
  bool interrupted_ = false;
};

// Runs the handlers of signals that have come, with the GIL. True when one of them raised: the grid is to be
// stopped. Asks Python at most every 50 ms, and the clock each time, so that it may be called often.
bool signal_raised();

}  // namespace weft

#endif  // WEFT_CPU_INTERRUPT_H_
