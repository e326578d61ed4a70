// SPDX-License-Identifier: Apache-2.0
//
// The driver's own log of a failed call, quoted in errors. Drivers have it from 12.9 on; without it errors
// lack these lines.
#ifndef WEFT_DRIVER_DRIVER_LOG_H_
#define WEFT_DRIVER_DRIVER_LOG_H_

#include <string>

#include "driver/library/driver_functions.h"

namespace weft {

// Subscribes to an initialized driver's log. Failing only costs a sentence in errors.
void listen_to_driver_log(const cuda::DriverFunctions& functions);

// Takes the driver's log lines of a call of `function` that just failed on this thread; mostly empty.
std::string take_driver_log(const char* function);

}  // namespace weft

#endif  // WEFT_DRIVER_DRIVER_LOG_H_
