// SPDX-License-Identifier: Apache-2.0
//
// What XLA passes to the handler of a custom call: the part of its C API (xla/ffi/api/c_api.h, version 0.x)
// that weft reads. Each struct starts with its size as XLA knows it, so that newer ones are longer, never
// different.
#ifndef WEFT_XLA_CALL_FRAME_H_
#define WEFT_XLA_CALL_FRAME_H_

#include <cstddef>
#include <cstdint>

namespace weft::xla {

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};
inline constexpr int32_t kMetadataExtension = 1;

struct Version {
  size_t struct_size;
  Extension* extensions;
  int32_t major;
  int32_t minor;
};

struct Error;  // XLA's own

enum class ErrorCode : int32_t {
  kCancelled = 1,
  kInvalidArgument = 3,
  kNotFound = 5,
  kUnimplemented = 12,
  kInternal = 13,
};

struct ErrorCreate {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};

struct StreamGet {
  size_t struct_size;
  Extension* extensions;
  void* context;
  void* stream;
};

struct DeviceOrdinalGet {
  size_t struct_size;
  Extension* extensions;
  void* context;
  int32_t ordinal;
};

// XLA's functions, in its order; those that weft does not call are places.
struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*error_create)(ErrorCreate*);
  void* error_get_message;
  void (*error_destroy)(void*);
  void* handler_register;
  Error* (*stream_get)(StreamGet*);
  void* others[12];
  Error* (*device_ordinal_get)(DeviceOrdinalGet*);
};

enum class DataType : int32_t {};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};

struct Text {
  const char* data;
  size_t size;
};

struct Array {
  DataType dtype;
  size_t size;
  void* data;
};

// Arguments and results: `size` buffers.
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int32_t* types;
  Buffer** buffers;
};

enum class AttributeType : int32_t { kArray = 1, kText = 4 };

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  AttributeType* types;
  Text** names;
  void** values;
};

enum class Stage : int32_t { kExecute = 3 };

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  Stage stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
  int64_t state_type;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

}  // namespace weft::xla

#endif  // WEFT_XLA_CALL_FRAME_H_
