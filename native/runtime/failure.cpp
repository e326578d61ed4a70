// SPDX-License-Identifier: Apache-2.0
//
// The sentence of each failing check: where, what was received, what was expected. The generated code holds
// the parts known at compile time.
#include "runtime/failure.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "ffi_library.h"
#include "runtime/describe.h"

namespace weft {
namespace {

std::atomic<bool> g_backtraces{false};

constexpr const char* kExceptions[] = {
#define WEFT_KIND(name, exception) exception,
    WEFT_FAILURE_KINDS(WEFT_KIND)
#undef WEFT_KIND
};

TVMFFIByteArray bytes_of(const char* text) { return {text, strlen(text)}; }

int32_t create_and_set(const char* exception, const char* message, size_t size) {
  const TVMFFIByteArray kind = bytes_of(exception);
  const TVMFFIByteArray text{message, size};
  TVMFFIByteArray backtrace{"", 0};
  if (g_backtraces.load(std::memory_order_relaxed)) {
    backtrace = *ffi().backtrace(__FILE__, __LINE__, "weft", 0);
  }
  TVMFFIObjectHandle error = nullptr;
  if (ffi().error_create(&kind, &text, &backtrace, &error) != 0) {
    fprintf(stderr, "weft: no memory for the error %s: %.*s\n", exception, static_cast<int>(size), message);
    return -1;
  }
  ffi().error_set_raised(error);
  ffi().object_dec_ref(error);
  return -1;
}

int32_t raise_out_of_memory() {
  static constexpr char kMessage[] = "no memory to describe an error";
  return create_and_set("MemoryError", kMessage, sizeof(kMessage) - 1);
}

DLDataType dtype_of_bits(int64_t bits) {
  DLDataType dtype;
  const auto low = static_cast<uint32_t>(bits);
  memcpy(&dtype, &low, sizeof(dtype));
  return dtype;
}

DLDevice device_of_bits(int64_t bits) {
  DLDevice device;
  memcpy(&device, &bits, sizeof(device));
  return device;
}

double double_of_bits(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

std::string address_text(int64_t address) {
  char text[32];
  snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

std::string item(const char* noun, const weft_failure_site& site) {
  if (site.index < 0) return "value is ";  // an argument that is a size itself
  return std::string(noun) + "[" + std::to_string(site.index) + "] is ";
}

// The site's optional end of a sentence: " to match a.shape[0]".
std::string tail(const weft_failure_site& site) {
  return site.expected == nullptr ? "" : std::string(" ") + site.expected;
}

std::string count_sentence(int64_t received, int64_t wanted) {
  return "expected " + std::to_string(wanted) + (wanted == 1 ? " argument" : " arguments") + ", received " +
         std::to_string(received);
}

// The sentence of a check with two numbers.
std::string sentence(const weft_failure_site& site, int64_t received, int64_t wanted) {
  const std::string got = std::to_string(received);
  const std::string want = std::to_string(wanted);
  switch (site.kind) {
    case WEFT_FAILURE_argument_count:
      return count_sentence(received, wanted);
    case WEFT_FAILURE_tensor_dtype:
      return "dtype is " + describe_dtype(dtype_of_bits(received)) + ", expected" + tail(site);
    case WEFT_FAILURE_device_type:
      return "device is " + describe_device(device_of_bits(received)) + ", expected " +
             describe_device_type(static_cast<int32_t>(wanted));
    case WEFT_FAILURE_device_index:
      return "device is " + describe_device(device_of_bits(received)) + ", expected " +
             describe_device({kDLCUDA, static_cast<int32_t>(wanted)}) + tail(site);
    case WEFT_FAILURE_alignment:
      return "data is at " + address_text(received) + ", expected an address divisible by " + want;
    case WEFT_FAILURE_dim_value:
      return item("shape", site) + got + ", expected " + want + tail(site);
    case WEFT_FAILURE_dim_range:
      return item("shape", site) + got + ", expected 0 to " + want + tail(site);
    case WEFT_FAILURE_dim_divisibility:
      return item("shape", site) + got + ", expected a multiple of " + want;
    case WEFT_FAILURE_stride_value:
      return item("strides", site) + got + ", expected " + want + tail(site);
    case WEFT_FAILURE_stride_range:
      return item("strides", site) + got + ", expected -2147483648 to 2147483647" + tail(site);
    case WEFT_FAILURE_stride_divisibility:
      return item("strides", site) + got + ", expected a multiple of " + want;
    case WEFT_FAILURE_integer_range:
      return "value is " + got + ", expected" + tail(site);
    case WEFT_FAILURE_item_count:
      return "it has " + got + (received == 1 ? " item" : " items") + ", expected " + want + tail(site);
    case WEFT_FAILURE_address_alignment:
      return "address is " + address_text(received) + ", expected a multiple of " + want;
    case WEFT_FAILURE_overlap:
      return "its memory, from " + address_text(received) + " on, overlaps that from " +
             address_text(wanted) + " on of" + tail(site);
    case WEFT_FAILURE_assumption:
      return site.expected;
    case WEFT_FAILURE_float_range:
      if (std::fabs(double_of_bits(received)) < 1)
        return "value is " + describe_float(double_of_bits(received)) + ", which would be 0 in " +
               site.expected + "; pass 0.0, or annotate weft.f64";
      return "value is " + describe_float(double_of_bits(received)) + ", expected at most " +
             describe_float(double_of_bits(wanted)) + " in magnitude (" + site.expected + ")";
    default:
      return "received " + got + ", expected " + want + tail(site);
  }
}

// The sentence of a check of a whole argument.
std::string sentence(const weft_failure_site& site, const TVMFFIAny& received) {
  const DLTensor* tensor = tensor_of(received);
  switch (site.kind) {
    case WEFT_FAILURE_tensor_rank:
      if (tensor != nullptr && tensor->ndim == site.index) return "its shape is a null pointer";
      return "rank is " + std::to_string(tensor == nullptr ? 0 : tensor->ndim) + " (shape " +
             (tensor == nullptr ? "NULL" : describe_shape(*tensor)) + "), expected " +
             std::to_string(site.index);
    case WEFT_FAILURE_integer_range:
      return "value is " + describe_big_int(received) + ", expected" + tail(site);
    case WEFT_FAILURE_shape_item:
      return item("shape", site) + describe_any(received) + ", expected an int";
    case WEFT_FAILURE_shape_item_range:
      return item("shape", site) + describe_big_int(received) + ", expected an int of at most 64 bits";
    case WEFT_FAILURE_returned_view:
      return "it is returned, so it must be passed as a tensor object; received a DLTensor*";
    default:
      return "expected" + tail(site) + ", received " + describe_any(received);
  }
}

std::string with_place(const weft_failure_site& site, const std::string& sentence) {
  std::string text = site.signature == nullptr ? "" : std::string(site.signature) + ": ";
  if (site.place != nullptr) text += std::string(site.place) + ": ";
  return text + sentence;
}

const char* exception_of(const weft_failure_site& site) {
  const bool known = site.kind >= 0 && site.kind < WEFT_FAILURE_KIND_COUNT;
  return known ? kExceptions[site.kind] : "RuntimeError";
}

// An impossible rank is left to the check of ranks, which comes later: nothing is read here.
bool has_elements(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > 64) return false;
  for (int32_t index = 0; index < tensor.ndim; ++index) {
    if (tensor.shape == nullptr || tensor.shape[index] == 0) return false;
  }
  return true;
}

}  // namespace

int32_t raise_error(const char* exception, std::string_view message) noexcept {
  return create_and_set(exception, message.data(), message.size());
}

void set_error_backtraces(bool enabled) { g_backtraces.store(enabled, std::memory_order_relaxed); }

int32_t fail(const weft_failure_site* site, int64_t received, int64_t wanted) {
  try {
    return raise_error(exception_of(*site), with_place(*site, sentence(*site, received, wanted)));
  } catch (const std::bad_alloc&) {
    return raise_out_of_memory();
  }
}

int32_t fail_any(const weft_failure_site* site, const TVMFFIAny* received) {
  try {
    return raise_error(exception_of(*site), with_place(*site, sentence(*site, *received)));
  } catch (const std::bad_alloc&) {
    return raise_out_of_memory();
  }
}

int32_t fail_unless_empty(const weft_failure_site* site, const DLTensor* tensor, int64_t received,
                          int64_t wanted) {
  if (!has_elements(*tensor)) return 0;
  if (site->kind != WEFT_FAILURE_null_data) return fail(site, received, wanted);
  try {
    return raise_error(exception_of(*site),
                       with_place(*site, "data is a null pointer, expected the elements of shape " +
                                             describe_shape(*tensor)));
  } catch (const std::bad_alloc&) {
    return raise_out_of_memory();
  }
}

}  // namespace weft
