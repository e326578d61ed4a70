// SPDX-License-Identifier: Apache-2.0
//
// The row sanitizer_fail of the runtime table: a finding as an FFI error.
#ifndef WEFT_CPU_REPORT_H_
#define WEFT_CPU_REPORT_H_

#include <weft/runtime_table.h>

namespace weft {

// Called by a kernel where a check of the sanitizer fails: sets the FFI error, marks the launch as failed and
// returns 1. The error's kind is "SanitizerError", its message is complete, and its extra context is the
// array that weft.SanitizerError is made from. `block` and `thread` are linear, x fastest.
int32_t sanitizer_fail(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const int64_t* values);

}  // namespace weft

#endif  // WEFT_CPU_REPORT_H_
