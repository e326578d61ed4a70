// SPDX-License-Identifier: Apache-2.0
//
// A finding of the sanitizer as an FFI error, and the row sanitizer_fail of the runtime table.
#ifndef WEFT_RUNTIME_REPORT_H_
#define WEFT_RUNTIME_REPORT_H_

#include <weft/runtime_table.h>

namespace weft {

// What a check of a kernel found; everything is borrowed.
struct Finding {
  const weft_check_site& site;
  const int64_t* values;  // by the site's kind
  const char* kernel;
  int64_t block[3], thread[3];
};

// Sets the FFI error of this thread. Its kind is "SanitizerError", its message is complete, and its extra
// context is the array that weft.SanitizerError is made from.
void raise_finding(const Finding& found);

// Called by a kernel on the CPU where a check fails: raises it, marks the launch as failed and returns 1.
// `block` and `thread` are linear, x fastest.
int32_t sanitizer_fail(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const int64_t* values);

}  // namespace weft

#endif  // WEFT_RUNTIME_REPORT_H_
