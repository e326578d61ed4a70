// SPDX-License-Identifier: Apache-2.0
//
// Driver errors as text, as FFI errors and as Python exceptions.
#include "driver/driver_error.h"

#include <cstring>
#include <utility>

#include "driver/driver_library.h"
#include "ffi_library.h"

namespace weft {

using cuda::CUresult;

namespace {

// What separates the fields that travel in an FFI error's extra context, after the first one.
constexpr char kSeparator = '\x1f';
constexpr char kMark[] = "weft.CudaError";

std::string result_text(CUresult result) {
  const char* text = nullptr;
  if (driver().cuGetErrorString != nullptr) driver().cuGetErrorString(result, &text);
  return text == nullptr ? "" : text;
}

TVMFFIByteArray bytes_of(const std::string& text) { return TVMFFIByteArray{text.data(), text.size()}; }

const char* ffi_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kValue:
      return "ValueError";
    case ErrorKind::kType:
      return "TypeError";
    default:
      return "RuntimeError";
  }
}

// The fields as one FFI string, or NULL where there are none. The caller owns the reference.
TVMFFIObjectHandle pack_fields(const DriverError& error) {
  if (error.kind != ErrorKind::kCuda) return nullptr;
  std::string text = kMark;
  for (const std::string& field :
       {std::to_string(error.code), error.name, error.function, error.kernel, error.configuration}) {
    text += kSeparator;
    text += field;
  }
  TVMFFIByteArray bytes = bytes_of(text);
  TVMFFIAny any{};
  if (ffi().string_from_byte_array(&bytes, &any) != 0) return nullptr;
  return any.type_index == kTVMFFIStr ? any.v_obj : nullptr;
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

bool read_cuda_error(const TVMFFIErrorCell* cell, DriverError* error) {
  auto* context = static_cast<TVMFFIObject*>(cell->extra_context);
  if (context == nullptr || context->type_index != kTVMFFIStr) return false;
  auto* bytes = reinterpret_cast<TVMFFIByteArray*>(context + 1);
  const std::string text(bytes->data, bytes->size);
  std::string fields[5];
  size_t start = sizeof(kMark) - 1;
  if (text.compare(0, start, kMark) != 0) return false;
  for (std::string& field : fields) {
    if (start >= text.size() || text[start] != kSeparator) return false;
    const size_t end = text.find(kSeparator, start + 1);
    field = text.substr(start + 1, end == std::string::npos ? end : end - start - 1);
    start = end == std::string::npos ? text.size() : end;
  }
  error->kind = ErrorKind::kCuda;
  error->code = static_cast<CUresult>(strtol(fields[0].c_str(), nullptr, 10));
  error->name = fields[1];
  error->function = fields[2];
  error->kernel = fields[3];
  error->configuration = fields[4];
  error->message.assign(cell->message.data, cell->message.size);
  return true;
}

PyObject* make_cuda_error(const DriverError& error) {
  PyObject* module = PyImport_ImportModule("weft.errors");
  if (module == nullptr) return nullptr;
  PyObject* made = PyObject_CallMethod(module, "CudaError", "sissss", error.message.c_str(), error.code,
                                       error.name.c_str(), error.function.c_str(), error.kernel.c_str(),
                                       error.configuration.c_str());
  Py_DECREF(module);
  return made;
}

PyObject* set_python_error(const DriverError& error) {
  switch (error.kind) {
    case ErrorKind::kValue:
      PyErr_SetString(PyExc_ValueError, error.message.c_str());
      return nullptr;
    case ErrorKind::kType:
      PyErr_SetString(PyExc_TypeError, error.message.c_str());
      return nullptr;
    case ErrorKind::kRuntime:
      PyErr_SetString(PyExc_RuntimeError, error.message.c_str());
      return nullptr;
    case ErrorKind::kCuda:
      break;
  }
  PyObject* made = make_cuda_error(error);
  if (made == nullptr) return nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made)), made);
  Py_DECREF(made);
  return nullptr;
}

}  // namespace weft
