// SPDX-License-Identifier: Apache-2.0
//
// libcuda as a table of function pointers: opened and initialized on first use, never at import. A child
// forked after that cannot use the driver, and gets an error; one forked before can.
#ifndef WEFT_DRIVER_DRIVER_LIBRARY_H_
#define WEFT_DRIVER_DRIVER_LIBRARY_H_

#include <atomic>

#include "driver/library/driver_error.h"
#include "driver/library/driver_functions.h"

namespace weft {

extern cuda::DriverFunctions g_driver_functions;  // written once by open_driver, never closed
extern std::atomic<bool> g_driver_ready;

// The functions; call open_driver or ensure_driver first.
inline const cuda::DriverFunctions& driver() { return g_driver_functions; }

inline bool driver_is_ready() { return g_driver_ready.load(std::memory_order_acquire); }

// Opens the library, checks its version, initializes it and lists the devices. Thread-safe. A failure is
// not remembered: the next use tries again.
bool open_driver(DriverError* error);

inline bool ensure_driver(DriverError* error) { return driver_is_ready() || open_driver(error); }

// The file to open instead of libcuda.so.1; an empty path means the default. Refused once another is open.
bool set_driver_path(const std::string& path, DriverError* error);

// True in a child forked after the driver was initialized: handles are invalid there.
bool driver_was_forked();

// 12040 for 12.4; 0 before the driver is open.
int driver_version();

}  // namespace weft

#endif  // WEFT_DRIVER_DRIVER_LIBRARY_H_
