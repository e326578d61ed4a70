// SPDX-License-Identifier: Apache-2.0
//
// How elements get from one layout to another: in the fewest axes of the longest runs. Host copies follow a
// plan here; copies of device memory give it to the driver.
#ifndef WEFT_PYTHON_COPY_PLAN_H_
#define WEFT_PYTHON_COPY_PLAN_H_

#include "python/common.h"

namespace weft {

inline constexpr int kMostCopyRank = 64;  // NumPy's and the buffer protocol's

struct CopyAxis {
  int64_t count;     // at least 2
  int64_t to, from;  // strides in bytes; that of the target is positive
};

struct CopyPlan {
  char* to;
  const char* from;
  int64_t bytes;  // all of them; 0: there is nothing to do
  int64_t run;    // bytes that follow each other on both sides
  int rank;
  CopyAxis axes[kMostCopyRank];  // the target's innermost first

  bool overlaps() const;  // whether the spans of the two sides meet
  void run_on_host() const;
};

// Bytes of an element, and the address of a tensor's first one.
int64_t item_bytes(DLDataType type);
inline char* first_element(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

// Plans a copy between tensors of one shape and element type. 0, or -1 with an exception where the target's
// elements may overlap each other, or an element is not a whole number of bytes.
int plan_copy(const DLTensor& to, const DLTensor& from, CopyPlan* plan);

// Copies between host memory, as if all were read before anything is written; gives up the GIL. Both are held
// by the caller. 0, or -1 with an exception.
int copy_on_host(const DLTensor& to, const DLTensor& from);

// Writes one element, given by its bytes, everywhere. The same.
int fill_on_host(const DLTensor& to, const char* element);

}  // namespace weft

#endif  // WEFT_PYTHON_COPY_PLAN_H_
