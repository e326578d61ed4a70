// SPDX-License-Identifier: Apache-2.0
//
// What tensors ask of the driver room: memory of their own, copies that may cross devices, and order between
// streams.
#ifndef WEFT_DRIVER_TENSOR_MEMORY_H_
#define WEFT_DRIVER_TENSOR_MEMORY_H_

#include "python/common.h"

namespace weft {

// A tensor with memory of its own on the host or a CUDA device, contiguous and not cleared. The caller owns
// the reference; nullptr with an exception.
TVMFFIObject* new_tensor(const int64_t* shape, int32_t rank, DLDataType type, DLDevice device);

// A contiguous copy on a device, in the order of the stream that the environment has for the source's; one on
// the host is whole when this returns. The same.
TVMFFIObject* copied_tensor(const DLTensor& source, DLDevice device);

// Copies an array of any library over a tensor of the host. 0, or -1 with an exception.
int copy_from_array(const DLTensor& to, PyObject* from);

// Makes a consumer's stream on a CUDA device wait for the work queued on the environment's; a stream that is
// being captured does not wait. 0, or -1 with an exception.
int order_consumer(int32_t device, void* consumer);

// Whether weft copies memory of this device.
inline bool is_copied_by_weft(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
         device.device_type == kDLCUDAManaged || device.device_type == kDLCUDA;
}

}  // namespace weft

#endif  // WEFT_DRIVER_TENSOR_MEMORY_H_
