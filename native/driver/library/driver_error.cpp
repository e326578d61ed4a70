// SPDX-License-Identifier: Apache-2.0
//
// Driver errors as text and as FFI errors.
#include "driver/library/driver_error.h"

#include <iterator>
#include <utility>

#include "driver/library/driver_library.h"
#include "driver/library/driver_log.h"
#include "ffi_library.h"

namespace weft {

using cuda::CUresult;

namespace {

// The name under which Python registers weft.CudaError (python/ffi_error.cpp builds the exception).
constexpr char kRegisteredName[] = "CudaError";

std::string result_text(CUresult result) {
  const char* text = nullptr;
  if (driver().cuGetErrorString != nullptr) driver().cuGetErrorString(result, &text);
  return text == nullptr ? "" : text;
}

TVMFFIByteArray bytes_of(const std::string& text) { return TVMFFIByteArray{text.data(), text.size()}; }

}  // namespace

const char* ffi_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kValue:
      return "ValueError";
    case ErrorKind::kType:
      return "TypeError";
    case ErrorKind::kMemory:
      return "MemoryError";
    default:
      return "RuntimeError";
  }
}

namespace {

// An owned FFI string; None if it cannot be made.
TVMFFIAny ffi_string(const std::string& text) {
  TVMFFIByteArray bytes = bytes_of(text);
  TVMFFIAny any{};
  if (ffi().string_from_byte_array(&bytes, &any) != 0) any.type_index = kTVMFFINone;
  return any;
}

// The constructor of ffi.Array, fetched once; NULL if libtvm_ffi has none.
TVMFFIObjectHandle array_function() {
  static const TVMFFIObjectHandle function = [] {
    TVMFFIByteArray name{"ffi.Array", 9};
    TVMFFIObjectHandle found = nullptr;
    return ffi().function_get_global(&name, &found) == 0 ? found : nullptr;
  }();
  return function;
}

// ["CudaError", code, name, function, kernel, configuration] as an ffi.Array, or NULL. Owned by the caller.
TVMFFIObjectHandle pack_fields(const DriverError& error) {
  if (error.kind != ErrorKind::kCuda || array_function() == nullptr) return nullptr;
  TVMFFIAny code{};
  code.type_index = kTVMFFIInt;
  code.v_int64 = error.code;
  TVMFFIAny values[] = {ffi_string(kRegisteredName), code,
                        ffi_string(error.name),      ffi_string(error.function),
                        ffi_string(error.kernel),    ffi_string(error.configuration)};
  TVMFFIAny array{};
  const bool made =
      ffi().function_call(array_function(), values, static_cast<int32_t>(std::size(values)), &array) == 0;
  for (TVMFFIAny& value : values) {
    if (value.type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(value.v_obj);
  }
  return made && array.type_index == kTVMFFIArray ? array.v_obj : nullptr;
}

}  // namespace

bool DriverError::value(std::string text) {
  kind = ErrorKind::kValue;
  message = std::move(text);
  return false;
}

bool DriverError::type(std::string text) {
  kind = ErrorKind::kType;
  message = std::move(text);
  return false;
}

bool DriverError::runtime(std::string text) {
  kind = ErrorKind::kRuntime;
  message = std::move(text);
  return false;
}

bool DriverError::memory(std::string text) {
  kind = ErrorKind::kMemory;
  message = std::move(text);
  return false;
}

bool DriverError::unusable(std::string text) {
  kind = ErrorKind::kCuda;
  code = -1;
  message = std::move(text);
  return false;
}

bool DriverError::cuda(CUresult result, const char* driver_function, const std::string& doing,
                       const std::string& explanation) {
  kind = ErrorKind::kCuda;
  code = result;
  name = result_name(result);
  function = driver_function;
  message = doing + ": " + driver_function + " returned " + name + " (" + std::to_string(result);
  const std::string text = result_text(result);
  if (!text.empty()) message += ", " + text;
  message += ")";
  if (!explanation.empty()) message += ": " + explanation;
  if (!configuration.empty()) message += "\n  configuration: " + configuration;
  const std::string log = take_driver_log(driver_function);
  if (!log.empty()) message += "\n  the driver's log: " + log;
  return false;
}

std::string result_name(CUresult result) {
  const char* text = nullptr;
  if (driver().cuGetErrorName != nullptr) driver().cuGetErrorName(result, &text);
  return text == nullptr ? "CUDA_ERROR_" + std::to_string(result) : text;
}

bool is_sticky(CUresult result) {
  switch (result) {
    case cuda::CUDA_ERROR_ILLEGAL_ADDRESS:
    case cuda::CUDA_ERROR_LAUNCH_TIMEOUT:
    case cuda::CUDA_ERROR_ASSERT:
    case cuda::CUDA_ERROR_HARDWARE_STACK_ERROR:
    case cuda::CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case cuda::CUDA_ERROR_MISALIGNED_ADDRESS:
    case cuda::CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case cuda::CUDA_ERROR_INVALID_PC:
    case cuda::CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

int32_t set_ffi_error(const DriverError& error) {
  const std::string kind = ffi_kind(error.kind);
  TVMFFIByteArray kind_bytes = bytes_of(kind);
  TVMFFIByteArray message_bytes = bytes_of(error.message);
  TVMFFIByteArray no_backtrace{"", 0};
  TVMFFIObjectHandle fields = pack_fields(error);
  TVMFFIObjectHandle created = nullptr;
  if (ffi().error_create_with_cause(&kind_bytes, &message_bytes, &no_backtrace, nullptr, fields, &created) ==
      0) {
    ffi().error_set_raised(created);
    ffi().object_dec_ref(created);
  }
  if (fields != nullptr) ffi().object_dec_ref(fields);
  return -1;
}

}  // namespace weft
