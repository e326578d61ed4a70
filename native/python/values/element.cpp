// SPDX-License-Identifier: Apache-2.0
//
// Reading is by the type's code; writing goes through the extractors of kernel parameters, whose ranges and
// words it shares.
#include "python/values/element.h"

#include <cstring>

#include "driver/launch/extractors.h"
#include "runtime/describe.h"
#include "runtime/scalar.h"

namespace weft {
namespace {

template <typename T>
double stored(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return static_cast<double>(value);
}

uint64_t stored_bits(const char* from, int bits) {
  uint64_t value = 0;
  std::memcpy(&value, from, static_cast<size_t>(bits) / 8);
  return value;
}

int32_t packed(DLDataType type) { return type.code | type.bits << 8 | type.lanes << 16; }

bool is_whole(DLDataType type) {
  return type.lanes == 1 && (type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64);
}

}  // namespace

PyObject* read_element(DLDataType type, const char* from) {
  const bool whole = is_whole(type);
  const uint64_t bits = whole ? stored_bits(from, type.bits) : 0;
  if (whole && type.code == kDLBool) return PyBool_FromLong(bits != 0);
  if (whole && type.code == kDLUInt) return PyLong_FromUnsignedLongLong(bits);
  if (whole && type.code == kDLInt) {
    const int unused = 64 - type.bits;
    return PyLong_FromLongLong(static_cast<int64_t>(bits << unused) >> unused);
  }
  if (is_narrow_float(packed(type))) {
    return PyFloat_FromDouble(widen_float(packed(type), static_cast<int64_t>(bits)));
  }
  if (whole && type.code == kDLFloat && type.bits >= 32) {
    return PyFloat_FromDouble(type.bits == 32 ? stored<float>(from) : stored<double>(from));
  }
  if (type.code == kDLComplex && type.bits == 64 && type.lanes == 1) {
    return PyComplex_FromDoubles(stored<float>(from), stored<float>(from + 4));
  }
  if (type.code == kDLComplex && type.bits == 128 && type.lanes == 1) {
    return PyComplex_FromDoubles(stored<double>(from), stored<double>(from + 8));
  }
  PyErr_Format(
      PyExc_TypeError,
      "elements of %s cannot be read as numbers of Python; take the tensor as an array of a library that "
      "has the type",
      describe_dtype(type).c_str());
  return nullptr;
}

namespace {

bool is_complex(DLDataType type) {
  return type.code == kDLComplex && type.lanes == 1 && (type.bits == 64 || type.bits == 128);
}

template <typename T>
int write_complex(PyObject* number, char* to) {
  const Py_complex value = PyComplex_AsCComplex(number);
  if (value.real == -1.0 && PyErr_Occurred()) return -1;
  const T parts[2] = {static_cast<T>(value.real), static_cast<T>(value.imag)};
  std::memcpy(to, parts, sizeof(parts));
  return 0;
}

}  // namespace

int write_element(PyObject* number, DLDataType type, char* to) {
  if (is_complex(type)) {
    return type.bits == 64 ? write_complex<float>(number, to) : write_complex<double>(number, to);
  }
  const std::string name = describe_dtype(type);
  const bool known = is_whole(type) && (type.code == kDLBool || type.code == kDLInt || type.code == kDLUInt ||
                                        type.code == kDLFloat || is_narrow_float(packed(type)));
  ParameterType parameter{};
  if (!known || !parse_parameter_type(name.c_str(), &parameter)) {
    PyErr_Clear();
    return refuse(PyExc_TypeError, "elements of %s cannot be made of a number; write an array of that type",
                  name.c_str());
  }
  char bytes[kMostElementBytes] = {};
  const ExtractionContext nowhere{};
  if (extract_parameter(number, parameter, nowhere, bytes) != 0) return -1;
  std::memcpy(to, bytes, static_cast<size_t>(type.bits) / 8);  // little endian; a flag is extracted as an int
  return 0;
}

}  // namespace weft
