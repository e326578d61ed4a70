// SPDX-License-Identifier: Apache-2.0
//
// A driver error as data, and as an FFI error, for generated code; driver/python/python_error.h makes
// Python's exceptions. Success paths never build one.
#ifndef WEFT_DRIVER_DRIVER_ERROR_H_
#define WEFT_DRIVER_DRIVER_ERROR_H_

#include <tvm/ffi/c_api.h>

#include <string>

#include "driver/library/cuda_abi.h"

namespace weft {

// The exception: weft.CudaError for the driver's own errors, ValueError and TypeError for arguments that weft
// refuses before asking the driver, RuntimeError for a misuse of the library, MemoryError for the host's
// memory.
enum class ErrorKind { kCuda, kValue, kType, kRuntime, kMemory };

struct DriverError {
  ErrorKind kind = ErrorKind::kCuda;
  cuda::CUresult code = -1;   // -1: there was no driver to ask
  std::string name;           // CUDA_ERROR_INVALID_VALUE
  std::string function;       // the driver function that returned it
  std::string kernel;         // being loaded or launched, or empty
  std::string configuration;  // grid=(4, 1, 1), block=(128, 1, 1), ... or empty
  std::string message;        // the whole text

  // Each fills the error and returns false, so that a failing check reads `return error->value(...)`.
  bool value(std::string text);
  bool type(std::string text);
  bool runtime(std::string text);
  bool memory(std::string text);
  // `doing`: "loading add_one on cuda:0"; `explanation`: meaning and remedy, or empty.
  bool cuda(cuda::CUresult result, const char* driver_function, const std::string& doing,
            const std::string& explanation = {});
  // No usable driver: code -1.
  bool unusable(std::string text);
};

// The kind of the FFI error that stands for one: the name of a Python exception.
const char* ffi_kind(ErrorKind kind);

// The driver's name for a result; "CUDA_ERROR_<code>" if the driver does not know it.
std::string result_name(cuda::CUresult result);

// True if the error leaves the context unusable: every later call fails until the process restarts.
bool is_sticky(cuda::CUresult result);

// Sets the FFI error of this thread and returns -1. A CUDA error has the kind "RuntimeError" and carries
// its fields in `extra_context`, from which the marshaller makes a weft.CudaError.
int32_t set_ffi_error(const DriverError& error);

}  // namespace weft

#endif  // WEFT_DRIVER_DRIVER_ERROR_H_
