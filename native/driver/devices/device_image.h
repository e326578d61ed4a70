// SPDX-License-Identifier: Apache-2.0
//
// Checks device code before the driver sees it: its load functions take no length, so a truncated file would
// be read past its end.
#ifndef WEFT_DRIVER_DEVICE_IMAGE_H_
#define WEFT_DRIVER_DEVICE_IMAGE_H_

#include <string>

#include "driver/library/driver_error.h"

namespace weft {

// Checks that `code` is a whole cubin, fatbin or PTX text: every table and section of an ELF file lies
// within it. `what` is named in the error. The code itself is the driver's to check.
bool check_device_image(const std::string& code, const std::string& what, DriverError* error);

// Explains why the driver does not assemble PTX for a device; empty for other results.
std::string explain_refused_ptx(cuda::CUresult result, const std::string& architecture);

// Explains why the driver rejects code as device code, telling PTX from machine code.
std::string explain_invalid_image(const std::string& code, const std::string& architecture);

}  // namespace weft

#endif  // WEFT_DRIVER_DEVICE_IMAGE_H_
