// SPDX-License-Identifier: Apache-2.0
//
// The blocks of a running grid that no thread has begun, for a block that waits for one of them.
#ifndef WEFT_CPU_UNSTARTED_H_
#define WEFT_CPU_UNSTARTED_H_

#include <cstdint>

namespace weft {

// While it lives, `take_unstarted` of this thread takes from it. They nest: a signal handler may launch.
class Unstarted {
 public:
  Unstarted();
  virtual ~Unstarted();
  Unstarted(const Unstarted&) = delete;
  Unstarted& operator=(const Unstarted&) = delete;

  // Takes blocks from `first` up to `last`, which the caller must run; false if none are left.
  virtual bool take(int64_t* first, int64_t* last) = 0;

 private:
  Unstarted* before_;
};

// From this thread's grid; false if there is none, or none of its blocks are left.
bool take_unstarted(int64_t* first, int64_t* last);

}  // namespace weft

#endif  // WEFT_CPU_UNSTARTED_H_
