// SPDX-License-Identifier: Apache-2.0
//
// How far a pointer argument of a kernel is checked.
#ifndef WEFT_DRIVER_POINTER_CHECK_H_
#define WEFT_DRIVER_POINTER_CHECK_H_

namespace weft {

// How a pointer is checked: not at all, against its object's device (free; the driver is asked about the
// address of an object that has no device, only data_ptr()), or by asking the driver about every address.
enum PointerCheck { kPointerOff = 0, kPointerDevice = 1, kPointerDriver = 2 };

}  // namespace weft

#endif  // WEFT_DRIVER_POINTER_CHECK_H_
