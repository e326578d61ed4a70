// SPDX-License-Identifier: Apache-2.0
//
// NumPy keeps a scalar's value right after the object's header (arrayscalars.h). Each scalar type is checked
// with a probe when first seen; if the layout differs, the value is read through Python.
#include "python/readers/numpy_scalar.h"

#include <cstdlib>
#include <cstring>

#include "python/readers/readers.h"
#include "python/values/encode/encode.h"
#include "runtime/scalar.h"

namespace weft {
namespace {

template <typename T>
T stored(PyObject* object) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(object) + sizeof(PyObject), sizeof(T));
  return value;
}

int set_float(double number, TVMFFIAny* value) {
  value->type_index = kTVMFFIFloat;
  value->zero_padding = 0;
  value->v_float64 = number;
  return 0;
}

int set_int(int64_t number, TVMFFIAny* value) {
  value->type_index = kTVMFFIInt;
  value->zero_padding = 0;
  value->v_int64 = number;
  return 0;
}

// 0 when the value was read, 1 when it must be read through Python.
int read_in_place(PyObject* object, DLDataType dtype, TVMFFIAny* value) {
  switch (dtype.code << 8 | dtype.bits) {
    case kDLBool << 8 | 8:
      *value = {kTVMFFIBool, {0}, {stored<uint8_t>(object) != 0}};
      return 0;
    case kDLInt << 8 | 8:
      return set_int(stored<int8_t>(object), value);
    case kDLInt << 8 | 16:
      return set_int(stored<int16_t>(object), value);
    case kDLInt << 8 | 32:
      return set_int(stored<int32_t>(object), value);
    case kDLInt << 8 | 64:
      return set_int(stored<int64_t>(object), value);
    case kDLUInt << 8 | 8:
      return set_int(stored<uint8_t>(object), value);
    case kDLUInt << 8 | 16:
      return set_int(stored<uint16_t>(object), value);
    case kDLUInt << 8 | 32:
      return set_int(stored<uint32_t>(object), value);
    case kDLUInt << 8 | 64: {
      uint64_t number = stored<uint64_t>(object);
      return number > INT64_MAX ? 1 : set_int(static_cast<int64_t>(number), value);
    }
    case kDLFloat << 8 | 16:
    case kDLBfloat << 8 | 16:
      return set_float(widen_float(dtype.code | 16 << 8 | 1 << 16, stored<uint16_t>(object)), value);
    case kDLFloat << 8 | 32:
      return set_float(static_cast<double>(stored<float>(object)), value);
    case kDLFloat << 8 | 64:
      return set_float(stored<double>(object), value);
    default:
      return 1;
  }
}

bool is_integer(DLDataType dtype) { return dtype.code == kDLInt || dtype.code == kDLUInt; }

// type(1) must read as one.
bool value_is_in_place(PyTypeObject* type, DLDataType dtype) {
  Reference one(PyLong_FromLong(1));
  Reference probe(one ? PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), one.get()) : nullptr);
  TVMFFIAny value;
  if (!probe || Py_TYPE(probe.get()) != type || read_in_place(probe.get(), dtype, &value) != 0) {
    PyErr_Clear();
    return false;
  }
  return value.type_index == kTVMFFIFloat ? value.v_float64 == 1.0 : value.v_int64 == 1;
}

DLDataType type_of_text(const char* text) {
  struct {
    const char* prefix;
    DLDataTypeCode code;
  } constexpr kCodes[] = {{"bool", kDLBool}, {"uint", kDLUInt}, {"int", kDLInt}, {"float", kDLFloat}};
  for (auto [prefix, code] : kCodes) {
    size_t length = std::strlen(prefix);
    if (std::strncmp(text, prefix, length) != 0) continue;
    if (code == kDLBool) return {kDLBool, 8, 1};
    char* end = nullptr;
    long bits = std::strtol(text + length, &end, 10);
    bool whole = end != text + length && *end == '\0';
    if (whole && (bits == 8 || bits == 16 || bits == 32 || bits == 64)) {
      return {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    }
  }
  return numpy_type_of_name(text);
}

}  // namespace

void resolve_numpy_scalar(TypeEntry* entry) {
  entry->kind = Kind::kUnknown;
  Reference constructor(imported_attribute("numpy", "dtype"));
  if (!constructor) return;
  Reference dtype(PyObject_CallOneArg(constructor.get(), reinterpret_cast<PyObject*>(entry->type)));
  Reference name(dtype ? PyObject_GetAttr(dtype.get(), g_names.name) : nullptr);
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return;
  }
  entry->dtype = type_of_text(text);
  if (entry->dtype.bits == 0) return;
  entry->kind = Kind::kNumpyScalar;
  entry->in_place = value_is_in_place(entry->type, entry->dtype);
}

int encode_numpy_scalar(PyObject* object, const TypeEntry& entry, Scratch& scratch, TVMFFIAny* value) {
  if (WEFT_LIKELY(entry.in_place) && read_in_place(object, entry.dtype, value) == 0) return 0;
  if (is_integer(entry.dtype)) {
    Reference number(PyNumber_Index(object));
    return number ? encode_int(number.get(), scratch, value) : -1;
  }
  if (entry.dtype.code == kDLBool) {
    int truth = PyObject_IsTrue(object);
    *value = {kTVMFFIBool, {0}, {truth}};
    return truth < 0 ? -1 : 0;
  }
  double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred()) return -1;
  return set_float(number, value);
}

}  // namespace weft
