// SPDX-License-Identifier: Apache-2.0
//
// What the driver writes into its own log about a call that fails, so that an error can say it, too. Drivers
// have such a log from 12.9 on; without it errors are as they were.
#ifndef WEFT_DRIVER_DRIVER_LOG_H_
#define WEFT_DRIVER_DRIVER_LOG_H_

#include <string>

#include "driver/library/driver_functions.h"

namespace weft {

// Asks an initialized driver to tell what it logs. Not being able to costs a sentence, nothing else.
void listen_to_driver_log(const cuda::DriverFunctions& functions);

// What the driver has logged on this thread just now about a call of `function` that failed, one line each,
// and forgets it; mostly nothing.
std::string take_driver_log(const char* function);

}  // namespace weft

#endif  // WEFT_DRIVER_DRIVER_LOG_H_
