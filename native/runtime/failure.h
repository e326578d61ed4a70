// SPDX-License-Identifier: Apache-2.0
//
// The rows of the runtime table that end a call with an error, and their helpers.
#ifndef WEFT_RUNTIME_FAILURE_H_
#define WEFT_RUNTIME_FAILURE_H_

#include <weft/runtime_table.h>

#include <string>
#include <string_view>

namespace weft {

// Sets the FFI error of this thread and returns -1. `exception` is the name of a Python exception, such as
// "ValueError". Without a backtrace unless `set_error_backtraces(true)` was called.
int32_t raise_error(const char* exception, std::string_view message) noexcept;

// Whether errors carry a native backtrace (WEFT_BACKTRACE), which costs 4 to 84 us each.
void set_error_backtraces(bool enabled);

// Rows of the table.
int32_t fail(const weft_failure_site* site, int64_t received, int64_t wanted);
int32_t fail_any(const weft_failure_site* site, const TVMFFIAny* received);
int32_t fail_unless_empty(const weft_failure_site* site, const DLTensor* tensor, int64_t received,
                          int64_t wanted);

}  // namespace weft

#endif  // WEFT_RUNTIME_FAILURE_H_
