// SPDX-License-Identifier: Apache-2.0
//
// Names of received values in messages: FFI values, dtypes, devices, shapes. A test compares them with
// weft.types.
#ifndef WEFT_RUNTIME_DESCRIBE_H_
#define WEFT_RUNTIME_DESCRIBE_H_

#include <tvm/ffi/c_api.h>

#include <string>

namespace weft {

std::string describe_any(const TVMFFIAny& value);      // "an int 3", "a tensor of f32 with shape (3, 4)"
std::string describe_dtype(DLDataType dtype);          // "f32", "c64", "i32x4"
std::string describe_device(DLDevice device);          // "cpu", "cuda:1"
std::string describe_device_type(int32_t type);        // "cuda"
std::string describe_shape(const DLTensor& tensor);    // "(3, 4)", or why it is invalid
std::string describe_float(double value);              // the shortest text that reads back as the value
std::string describe_big_int(const TVMFFIAny& value);  // decimal digits of an int or a BigInt

// The tensor that an argument of type 7 or 70 holds, or nullptr.
const DLTensor* tensor_of(const TVMFFIAny& value);

}  // namespace weft

#endif  // WEFT_RUNTIME_DESCRIBE_H_
