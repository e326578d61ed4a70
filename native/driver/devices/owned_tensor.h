// SPDX-License-Identifier: Apache-2.0
//
// Contiguous tensors with memory of their own, on the host or on a CUDA device.
#ifndef WEFT_DRIVER_OWNED_TENSOR_H_
#define WEFT_DRIVER_OWNED_TENSOR_H_

#include <dlpack/dlpack.h>

#include "driver/library/driver_error.h"

namespace weft {

// Of the prototype's shape, type and device; not cleared. Host memory is aligned to 64 bytes, device memory
// to 256. The deleter may run on any thread: device memory waits for a safe point. nullptr with an error.
DLManagedTensorVersioned* make_owned_tensor(const DLTensor& prototype, DriverError* error);

}  // namespace weft

#endif  // WEFT_DRIVER_OWNED_TENSOR_H_
