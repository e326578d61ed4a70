// SPDX-License-Identifier: Apache-2.0
//
// Descriptions of values. Nothing here trusts more of a value than its type index guarantees.
#include "runtime/describe.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "ffi_library.h"
#include "runtime/dtypes.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

constexpr size_t kLongestText = 40;  // of a string or number in a message

std::string number(int64_t value) { return std::to_string(value); }

std::string quoted(const char* data, size_t size, const char* what) {
  const bool cut = size > kLongestText;
  // A cut in the middle of a UTF-8 sequence would not be text: go back to its first byte.
  size_t length = cut ? kLongestText : size;
  while (cut && length > 0 && (static_cast<unsigned char>(data[length]) & 0xC0) == 0x80) --length;
  return std::string(what) + " '" + std::string(data, length) + (cut ? "...'" : "'");
}

std::string pointer_text(const void* pointer) {
  char text[32];
  snprintf(text, sizeof(text), "%p", pointer);
  return pointer == nullptr ? "NULL" : text;
}

// An object of a type without a description: its key in the type table.
std::string object_text(const TVMFFIAny& value) {
  const TVMFFITypeInfo* info = find_type_info(value.type_index);
  if (info == nullptr) return "a value of type index " + number(value.type_index);
  return "an object of type " + std::string(info->type_key.data, info->type_key.size);
}

std::string sequence_text(const TVMFFIAny& value, const char* what) {
  const auto* cell = reinterpret_cast<const TVMFFISeqCell*>(value.v_obj + 1);
  return std::string(what) + " of " + number(cell->size) + (cell->size == 1 ? " item" : " items");
}

std::string shape_object_text(const TVMFFIAny& value) {
  const auto* cell = reinterpret_cast<const TVMFFIShapeCell*>(value.v_obj + 1);
  return "a shape of " + std::to_string(cell->size) + (cell->size == 1 ? " item" : " items");
}

std::string tensor_text(const TVMFFIAny& value) {
  const DLTensor* tensor = tensor_of(value);
  if (tensor == nullptr) return "a null DLTensor*";
  return "a tensor of " + describe_dtype(tensor->dtype) + " with shape " + describe_shape(*tensor) + " on " +
         describe_device(tensor->device);
}

std::string heap_text(const TVMFFIAny& value) {
  if (value.v_obj == nullptr) return "a null object";
  const auto* bytes = reinterpret_cast<const TVMFFIByteArray*>(value.v_obj + 1);
  switch (value.type_index) {
    case kTVMFFIStr:
      return quoted(bytes->data, bytes->size, "a str");
    case kTVMFFIBytes:
      return "bytes of length " + std::to_string(bytes->size);
    case kTVMFFIFunction:
      return "a function";
    case kTVMFFIShape:
      return shape_object_text(value);
    case kTVMFFITensor:
      return tensor_text(value);
    case kTVMFFIArray:
      return sequence_text(value, "a list or tuple");
    case kTVMFFIList:
      return sequence_text(value, "a list");
    case kTVMFFIMap:
      return "a map";
    case kTVMFFIDict:
      return "a dict";
    case kTVMFFIModule:
      return "a module";
    case kTVMFFIOpaquePyObject:
      return opaque_object_text(value);
    case kTVMFFIBigInt:
      return "an int " + describe_big_int(value);
    default:
      return object_text(value);
  }
}

// Divides a little-endian number of 64-bit words by 10^18 in place and returns the remainder.
uint64_t divide_by_1e18(std::vector<uint64_t>* words) {
  constexpr uint64_t kDivisor = 1000000000000000000u;
  unsigned __int128 remainder = 0;
  for (size_t index = words->size(); index-- > 0;) {
    const unsigned __int128 part = (remainder << 64) | (*words)[index];
    (*words)[index] = static_cast<uint64_t>(part / kDivisor);
    remainder = part % kDivisor;
  }
  while (!words->empty() && words->back() == 0) words->pop_back();
  return static_cast<uint64_t>(remainder);
}

}  // namespace

const DLTensor* tensor_of(const TVMFFIAny& value) {
  if (value.v_ptr == nullptr) return nullptr;
  if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
  if (value.type_index == kTVMFFITensor) return reinterpret_cast<const DLTensor*>(value.v_obj + 1);
  return nullptr;
}

std::string describe_any(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFINone:
      return "None";
    case kTVMFFIInt:
      return "an int " + number(value.v_int64);
    case kTVMFFIBool:
      return value.v_int64 != 0 ? "a bool True" : "a bool False";
    case kTVMFFIFloat:
      return "a float " + describe_float(value.v_float64);
    case kTVMFFIOpaquePtr:
      return "a pointer " + pointer_text(value.v_ptr);
    case kTVMFFIDataType:
      return "a dtype " + describe_dtype(value.v_dtype);
    case kTVMFFIDevice:
      return "a device " + describe_device(value.v_device);
    case kTVMFFIDLTensorPtr:
      return tensor_text(value);
    case kTVMFFIRawStr:
      if (value.v_c_str == nullptr) return "a null char*";
      return quoted(value.v_c_str, std::char_traits<char>::length(value.v_c_str), "a str");
    case kTVMFFIByteArrayPtr:
      return "bytes";
    case kTVMFFISmallStr:
      return quoted(value.v_bytes, std::min<size_t>(value.small_str_len, 7), "a str");
    case kTVMFFISmallBytes:
      return "bytes of length " + std::to_string(value.small_str_len);
    default:
      break;
  }
  if (value.type_index >= kTVMFFIStaticObjectBegin) return heap_text(value);
  return "a value of type index " + number(value.type_index);
}

std::string describe_dtype(DLDataType dtype) {
  struct Known {
    uint8_t code, bits;
    const char* name;
  };
#define ROW(name, code, bits, xla) {code, bits, name},
  static constexpr Known kKnown[] = {WEFT_DTYPES(ROW)};
#undef ROW
  const std::string bits = std::to_string(dtype.bits);
  std::string name;
  for (const Known& known : kKnown) {
    if (known.code == dtype.code && known.bits == dtype.bits) name = known.name;
  }
  if (name.empty()) {
    static constexpr const char* kStems[] = {"i", "u", "f", "handle", "bf", "complex", "bool"};
    if (dtype.code < sizeof(kStems) / sizeof(kStems[0])) {
      name = kStems[dtype.code] + bits;
    } else {
      name = "dlpack(code=" + std::to_string(dtype.code) + ", bits=" + bits + ")";
    }
  }
  return dtype.lanes == 1 ? name : name + "x" + std::to_string(dtype.lanes);
}

std::string describe_device_type(int32_t type) {
  struct Known {
    int32_t type;
    const char* name;
  };
  static constexpr Known kKnown[] = {
      {kDLCPU, "cpu"},
      {kDLCUDA, "cuda"},
      {kDLCUDAHost, "cuda_host"},
      {kDLOpenCL, "opencl"},
      {kDLVulkan, "vulkan"},
      {kDLMetal, "metal"},
      {kDLROCM, "rocm"},
      {kDLROCMHost, "rocm_host"},
      {kDLExtDev, "ext_dev"},
      {kDLCUDAManaged, "cuda_managed"},
      {kDLOneAPI, "oneapi"},
      {kDLWebGPU, "webgpu"},
      {kDLHexagon, "hexagon"},
      {17, "maia"},
      {18, "trn"},
  };
  for (const Known& known : kKnown) {
    if (known.type == type) return known.name;
  }
  return "device_type_" + number(type);
}

std::string describe_device(DLDevice device) {
  const std::string type = describe_device_type(device.device_type);
  return device.device_type == kDLCPU ? type : type + ":" + number(device.device_id);
}

std::string describe_shape(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > 64) return "of " + number(tensor.ndim) + " dimensions";
  if (tensor.ndim > 0 && tensor.shape == nullptr) return "NULL";
  std::string text = "(";
  for (int32_t index = 0; index < tensor.ndim; ++index) {
    if (index > 0) text += ", ";
    text += number(tensor.shape[index]);
  }
  return text + (tensor.ndim == 1 ? ",)" : ")");
}

std::string describe_float(double value) {
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  std::string digits(text, result.ptr);
  // As Python writes it, so that a float differs from an int.
  if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
  return digits;
}

std::string describe_big_int(const TVMFFIAny& value) {
  if (value.type_index != kTVMFFIBigInt) return number(value.v_int64);
  if (value.v_obj == nullptr) return "a null object";
  const TVMFFIByteArray content = ffi().big_int_content(&value);
  std::vector<uint64_t> words(content.size / 8);
  std::copy_n(content.data, words.size() * 8, reinterpret_cast<char*>(words.data()));
  if (words.empty()) return "0";
  if (words.size() > 4) return "of " + std::to_string(words.size() * 64) + " bits";
  const bool negative = (words.back() >> 63) != 0;
  if (negative) {
    uint64_t carry = 1;
    for (uint64_t& word : words) {
      word = ~word + carry;
      carry = carry != 0 && word == 0 ? 1 : 0;
    }
  }
  std::string text;
  while (!words.empty()) {
    char part[24];
    const uint64_t digits = divide_by_1e18(&words);
    snprintf(part, sizeof(part), words.empty() ? "%" PRIu64 : "%018" PRIu64, digits);
    text = part + text;
  }
  return (negative ? "-" : "") + (text.empty() ? "0" : text);
}

}  // namespace weft
