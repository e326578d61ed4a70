// SPDX-License-Identifier: Apache-2.0
//
// Signals while a grid runs. A call from Python that takes long releases the GIL, and its thread asks now and
// then whether a signal's handler wants to raise; callers without Python, or without the GIL, are left alone.
#ifndef WEFT_CPU_INTERRUPT_H_
#define WEFT_CPU_INTERRUPT_H_

namespace weft {

// Releases the GIL for the scope's time, if Python called this thread with it.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  bool released_;
};

// Runs the handlers of signals that have come, with the GIL, if this thread was called by Python. True when
// one of them raised: the exception stays pending, and the grid is to be stopped. Asks Python at most every
// 50 ms, so that it may be called often.
bool signal_raised();

// Whether this thread may have to ask for signals: it was called by Python with the GIL.
bool watches_signals();

// Whether Python called this thread and has an exception pending in it. Needs the GIL where there is one.
bool exception_pending();

}  // namespace weft

#endif  // WEFT_CPU_INTERRUPT_H_
