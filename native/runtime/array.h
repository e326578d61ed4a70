// SPDX-License-Identifier: Apache-2.0
//
// The rows of the runtime table that make results: tuples, and returned arguments.
#ifndef WEFT_RUNTIME_ARRAY_H_
#define WEFT_RUNTIME_ARRAY_H_

#include <weft/runtime_table.h>

namespace weft {

int32_t make_array(const TVMFFIAny* values, int64_t count, TVMFFIAny* result);
int32_t return_argument(const weft_failure_site* site, const TVMFFIAny* argument, TVMFFIAny* result);
void release_values(const TVMFFIAny* values, int64_t count);

}  // namespace weft

#endif  // WEFT_RUNTIME_ARRAY_H_
