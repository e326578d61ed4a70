// SPDX-License-Identifier: Apache-2.0
//
// Device addresses of Python objects.
#ifndef WEFT_DRIVER_EXTRACT_POINTER_H_
#define WEFT_DRIVER_EXTRACT_POINTER_H_

#include "driver/launch/extractors.h"

namespace weft {

// None is 0, an int is an address; tensors of any array library, and objects with data_ptr(). Memory that
// the kernel's device cannot reach is refused as far as the context's check goes. 0, or -1 with an
// exception that does not name the argument yet.
int extract_pointer(PyObject* object, const ExtractionContext& context, uint64_t* address);

// The ordinal of an address's device, from the driver; -1 for host memory and for
// addresses that CUDA does not know. The driver is open.
int32_t device_of_address(uint64_t address);

}  // namespace weft

#endif  // WEFT_DRIVER_EXTRACT_POINTER_H_
