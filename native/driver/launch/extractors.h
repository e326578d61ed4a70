// SPDX-License-Identifier: Apache-2.0
//
// From Python objects to kernel parameters: one row per type name of a kernel signature.
//
// A signature's metadata is four bytes per parameter, made once by build_signature_metadata:
//
//   | kind (8) | log2 alignment (8) | bytes (16, little endian) |
#ifndef WEFT_DRIVER_EXTRACTORS_H_
#define WEFT_DRIVER_EXTRACTORS_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "driver/launch/pointer_check.h"

namespace weft {

struct ParameterType {
  uint8_t kind;
  uint8_t log2_alignment;
  uint16_t bytes;
};
static_assert(sizeof(ParameterType) == 4, "the metadata is an array of these");

struct ExtractionContext {
  int32_t device;                 // the ordinal where the kernel will run
  int check;                      // enum PointerCheck
  bool trusts_addresses = false;  // of objects that say nothing of their device
};

// Parses a type name: "*fp32", "i32", "bf16", "nvTmaDesc", "struct[12:4]", ... False with ValueError.
bool parse_parameter_type(const char* name, ParameterType* type);

// True if parse_parameter_type can have made it; the functions below accept no other types.
bool is_parameter_type(const ParameterType& type);

// The name for messages, such as "i32".
const char* parameter_type_name(const ParameterType& type);

// True where a kernel parameter of `bytes` can be read from an extracted value of this type.
bool fits_parameter(const ParameterType& type, size_t bytes);

// Writes `type.bytes` to `target`, aligned as the type requires. 0, or -1 with a Python exception that does
// not name the argument yet.
int extract_parameter(PyObject* object, const ParameterType& type, const ExtractionContext& context,
                      void* target);

}  // namespace weft

#endif  // WEFT_DRIVER_EXTRACTORS_H_
