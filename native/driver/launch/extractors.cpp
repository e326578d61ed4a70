// SPDX-License-Identifier: Apache-2.0
//
// The extractors. Integers are range-checked, floats rounded to nearest even; nothing is narrowed silently.
#include "driver/launch/extractors.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "driver/launch/extract_pointer.h"
#include "driver/python/tensor_map.h"
#include "python/values/type_table.h"
#include "runtime/dtypes.h"
#include "runtime/scalar.h"

namespace weft {
namespace {

constexpr size_t kMostParameterBytes = 32764;  // of all parameters of a kernel
constexpr uint8_t kMostLog2Alignment = 7;

using Extract = int (*)(PyObject* object, const ParameterType& type, const ExtractionContext& context,
                        void* target);

struct Row {
  const char* names[4];  // the first is the one used in messages
  Extract extract;
  uint16_t bytes;
  uint8_t log2_alignment;
  int64_t minimum;  // of integers
  uint64_t maximum;
  int32_t dlpack;  // of narrow floats: DLDataType as 32 bits
};

const Row& row_of(const ParameterType& type);

// NumPy's bool is not an index, but an int as Python's is.
bool is_numpy_flag(PyObject* object) {
  const TypeEntry* entry = find_type(object);
  return entry != nullptr && entry->kind == Kind::kNumpyScalar && entry->dtype.code == kDLBool;
}

int extract_integer(PyObject* object, const ParameterType& type, const ExtractionContext&, void* target) {
  const Row& row = row_of(type);
  if (is_numpy_flag(object)) {
    const int64_t truth = PyObject_IsTrue(object);
    memcpy(target, &truth, type.bytes);
    return truth < 0 ? -1 : 0;
  }
  if (!PyIndex_Check(object)) {
    return refuse(PyExc_TypeError, "expected an int (%s), received %s", row.names[0],
                  Py_TYPE(object)->tp_name);
  }
  Reference integer(PyNumber_Index(object));
  if (!integer) return -1;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer.get(), &overflow);
  uint64_t bits = static_cast<uint64_t>(value);
  bool fits = overflow == 0 && value >= row.minimum && (value < 0 || bits <= row.maximum);
  if (overflow > 0 && row.maximum == UINT64_MAX) {
    bits = PyLong_AsUnsignedLongLong(integer.get());
    fits = !(bits == UINT64_MAX && PyErr_Occurred());
    PyErr_Clear();
  }
  if (!fits) {
    return refuse(PyExc_ValueError, "expected an int from %lld to %llu (%s), received %S",
                  static_cast<long long>(row.minimum), static_cast<unsigned long long>(row.maximum),
                  row.names[0], integer.get());
  }
  memcpy(target, &bits, type.bytes);  // little endian: the low bytes come first
  return 0;
}

// A double from a float, an int or a NumPy scalar.
int read_double(PyObject* object, const Row& row, double* value) {
  if (!PyFloat_Check(object) && !PyIndex_Check(object) && !PyNumber_Check(object)) {
    return refuse(PyExc_TypeError, "expected a float (%s), received %s", row.names[0],
                  Py_TYPE(object)->tp_name);
  }
  *value = PyFloat_AsDouble(object);
  if (*value != -1.0 || !PyErr_Occurred()) return 0;
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
  PyErr_Clear();
  return refuse(PyExc_ValueError, "expected a float (%s), received an int beyond every float", row.names[0]);
}

int refuse_float(PyObject* object, const Row& row, double largest) {
  Reference limit(PyFloat_FromDouble(largest));
  if (!limit) return -1;
  return refuse(PyExc_ValueError, "expected a float of magnitude at most %R (%s), received %R", limit.get(),
                row.names[0], object);
}

// A number that its type would make 0, as generated wrappers refuse it.
int refuse_vanishing(PyObject* object, const Row& row) {
  return refuse(PyExc_ValueError, "expected a float that does not become 0 (%s), received %R", row.names[0],
                object);
}

int extract_f64(PyObject* object, const ParameterType& type, const ExtractionContext&, void* target) {
  double value = 0;
  if (read_double(object, row_of(type), &value) != 0) return -1;
  memcpy(target, &value, sizeof(value));
  return 0;
}

int extract_f32(PyObject* object, const ParameterType& type, const ExtractionContext&, void* target) {
  double value = 0;
  if (read_double(object, row_of(type), &value) != 0) return -1;
  const float narrow = static_cast<float>(value);
  if (__builtin_isinf(narrow) && !__builtin_isinf(value))
    return refuse_float(object, row_of(type), 3.4028234663852886e38);
  if (narrow == 0 && value != 0) return refuse_vanishing(object, row_of(type));
  memcpy(target, &narrow, sizeof(narrow));
  return 0;
}

int extract_narrow_float(PyObject* object, const ParameterType& type, const ExtractionContext&,
                         void* target) {
  const Row& row = row_of(type);
  double value = 0, largest = 0;
  if (read_double(object, row, &value) != 0) return -1;
  const int64_t bits = round_to_float(row.dlpack, value, &largest);
  if (bits < 0) return refuse_float(object, row, largest);
  const int64_t sign_bit = int64_t{1} << (8 * type.bytes - 1);
  if (value != 0 && (bits & ~sign_bit) == 0) return refuse_vanishing(object, row);
  memcpy(target, &bits, type.bytes);
  return 0;
}

int extract_pointer_row(PyObject* object, const ParameterType&, const ExtractionContext& context,
                        void* target) {
  uint64_t address = 0;
  if (extract_pointer(object, context, &address) != 0) return -1;
  memcpy(target, &address, sizeof(address));
  return 0;
}

// A struct or other 128-byte block passed by value.
int extract_bytes(PyObject* object, const ParameterType& type, const ExtractionContext&, void* target) {
  Py_buffer buffer;
  if (!PyObject_CheckBuffer(object)) {
    return refuse(PyExc_TypeError,
                  "expected an object with the buffer protocol of %d bytes (%s), received %s",
                  int{type.bytes}, row_of(type).names[0], Py_TYPE(object)->tp_name);
  }
  if (PyObject_GetBuffer(object, &buffer, PyBUF_SIMPLE) != 0) return -1;
  const Py_ssize_t received = buffer.len;
  if (received == type.bytes) memcpy(target, buffer.buf, type.bytes);
  PyBuffer_Release(&buffer);
  if (received == type.bytes) return 0;
  return refuse(PyExc_ValueError, "expected %d bytes (%s), received %zd", int{type.bytes},
                row_of(type).names[0], received);
}

int extract_tensor_map(PyObject* object, const ParameterType& type, const ExtractionContext& context,
                       void* target) {
  if (!is_tensor_map(object)) return extract_bytes(object, type, context, target);
  const void* map = tensor_map_of(object);
  if (map == nullptr) return -1;
  memcpy(target, map, type.bytes);
  return 0;
}

constexpr int32_t dtype(int32_t code, int32_t bits) { return code | bits << 8 | 1 << 16; }

#define ROW(code, bits, exponent_bits, mantissa_bits, largest, infinity, nan, ...) \
  {{__VA_ARGS__}, extract_narrow_float, bits / 8, bits / 16, 0, 0, dtype(code, bits)},

// The kinds; metadata holds an index into this table.
constexpr Row kRows[] = {
    {{"a pointer"}, extract_pointer_row, 8, 3, 0, 0, 0},
    {{"i1"}, extract_integer, 4, 2, 0, 1, 0},
    {{"i8"}, extract_integer, 1, 0, INT8_MIN, INT8_MAX, 0},
    {{"i16"}, extract_integer, 2, 1, INT16_MIN, INT16_MAX, 0},
    {{"i32"}, extract_integer, 4, 2, INT32_MIN, INT32_MAX, 0},
    {{"i64"}, extract_integer, 8, 3, INT64_MIN, INT64_MAX, 0},
    {{"u1", "bool_"}, extract_integer, 4, 2, 0, 1, 0},
    {{"u8"}, extract_integer, 1, 0, 0, UINT8_MAX, 0},
    {{"u16"}, extract_integer, 2, 1, 0, UINT16_MAX, 0},
    {{"u32"}, extract_integer, 4, 2, 0, UINT32_MAX, 0},
    {{"u64"}, extract_integer, 8, 3, 0, UINT64_MAX, 0},
    {{"fp32", "f32"}, extract_f32, 4, 2, 0, 0, 0},
    {{"fp64", "f64"}, extract_f64, 8, 3, 0, 0, 0},
    WEFT_NARROW_FLOATS(ROW)  // and the floats below 32 bits
    {{"nvTmaDesc"}, extract_tensor_map, 128, 7, 0, 0, 0},
    {{"struct"}, extract_bytes, 0, 0, 0, 0, 0},
};
#undef ROW
constexpr size_t kRowCount = sizeof(kRows) / sizeof(kRows[0]);
constexpr size_t kStruct = kRowCount - 1;

const Row& row_of(const ParameterType& type) { return kRows[type.kind]; }

std::string all_names() {
  std::string text = "'*<element>'";
  for (size_t index = 1; index < kStruct; ++index) {
    for (const char* name : kRows[index].names) {
      if (name != nullptr) text += std::string(", '") + name + "'";
    }
  }
  return text + ", 'struct[<bytes>:<alignment>]'";
}

bool refuse_type(const char* name) {
  refuse(PyExc_ValueError, "'%s' is not a kernel parameter type, expected one of: %s", name,
         all_names().c_str());
  return false;
}

// struct[12] or struct[12:4]; without an alignment the largest power of two up to 16 that divides the size.
bool parse_struct(const char* name, ParameterType* type) {
  char* end = nullptr;
  const unsigned long bytes = strtoul(name + strlen("struct["), &end, 10);
  unsigned long alignment = 1;
  while (alignment < 16 && bytes % (2 * alignment) == 0) alignment *= 2;
  if (*end == ':') alignment = strtoul(end + 1, &end, 10);
  const bool is_power =
      alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= 1u << kMostLog2Alignment;
  if (strcmp(end, "]") != 0 || bytes == 0 || bytes > kMostParameterBytes || !is_power)
    return refuse_type(name);
  type->kind = kStruct;
  type->bytes = static_cast<uint16_t>(bytes);
  type->log2_alignment = static_cast<uint8_t>(__builtin_ctzl(alignment));
  return true;
}

}  // namespace

bool parse_parameter_type(const char* name, ParameterType* type) {
  if (strncmp(name, "struct[", 7) == 0) return parse_struct(name, type);
  size_t found = name[0] == '*' && name[1] != 0 ? 0 : kRowCount;
  for (size_t index = 1; index < kStruct && found == kRowCount; ++index) {
    for (const char* candidate : kRows[index].names) {
      if (candidate != nullptr && strcmp(candidate, name) == 0) found = index;
    }
  }
  if (found == kRowCount) return refuse_type(name);
  *type = {static_cast<uint8_t>(found), kRows[found].log2_alignment, kRows[found].bytes};
  return true;
}

bool is_parameter_type(const ParameterType& type) {
  if (type.kind == kStruct)
    return type.bytes != 0 && type.bytes <= kMostParameterBytes && type.log2_alignment <= kMostLog2Alignment;
  return type.kind < kRowCount && type.bytes == row_of(type).bytes &&
         type.log2_alignment == row_of(type).log2_alignment;
}

const char* parameter_type_name(const ParameterType& type) { return row_of(type).names[0]; }

bool fits_parameter(const ParameterType& type, size_t bytes) {
  // A flag is kept in four bytes and may be declared with one, two or four.
  const bool is_flag = row_of(type).extract == extract_integer && row_of(type).maximum == 1;
  return bytes == type.bytes || (is_flag && bytes < type.bytes);
}

int extract_parameter(PyObject* object, const ParameterType& type, const ExtractionContext& context,
                      void* target) {
  return row_of(type).extract(object, type, context, target);
}

}  // namespace weft
