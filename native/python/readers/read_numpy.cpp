// SPDX-License-Identifier: Apache-2.0
//
// NumPy arrays through NumPy's documented C structure (ndarraytypes.h, unchanged from 1.x to 2.x in the
// fields used). The mirror is compared with Python's view of an array before it is used.
#include <cstring>

#include "python/readers/readers.h"

namespace weft {
namespace {

struct ArrayObject {
  PyObject base;
  char* data;
  int ndim;
  Py_ssize_t* dims;
  Py_ssize_t* strides;  // in bytes
  PyObject* owner;
  PyObject* dtype;
  int flags;
};

struct DtypeObject {
  PyObject base;
  PyTypeObject* scalar_type;
  char kind;
  char character;
  char byte_order;
  char former_flags;
  int number;
};

static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "dims are copied as 64-bit integers");

constexpr int kWriteable = 0x400;

// NumPy's numbers of its own types, in order: bool, then the C integers from signed char to unsigned long
// long, the floats, the complex floats, object, bytes, str, void, datetime, timedelta, half.
constexpr DLDataType kNone{0, 0, 0};
constexpr DLDataType kBuiltinTypes[] = {
    {kDLBool, 8, 1},
    {kDLInt, 8, 1},
    {kDLUInt, 8, 1},
    {kDLInt, 16, 1},
    {kDLUInt, 16, 1},
    {kDLInt, 32, 1},
    {kDLUInt, 32, 1},
    {kDLInt, 64, 1},
    {kDLUInt, 64, 1},
    {kDLInt, 64, 1},
    {kDLUInt, 64, 1},
    {kDLFloat, 32, 1},
    {kDLFloat, 64, 1},
    kNone,
    {kDLComplex, 64, 1},
    {kDLComplex, 128, 1},
    kNone,
    kNone,
    kNone,
    kNone,
    kNone,
    kNone,
    kNone,
    {kDLFloat, 16, 1},
};
constexpr int kBuiltinCount = sizeof(kBuiltinTypes) / sizeof(kBuiltinTypes[0]);

// The types that ml_dtypes registers, by the name of their dtype. Its 2- and 4-bit types are stored one per
// byte, which no DLPack type expresses, so they are absent.
struct NamedType {
  const char* name;
  DLDataType type;
};
constexpr NamedType kNamedTypes[] = {
    {"bfloat16", {kDLBfloat, 16, 1}},
    {"float8_e3m4", {kDLFloat8_e3m4, 8, 1}},
    {"float8_e4m3", {kDLFloat8_e4m3, 8, 1}},
    {"float8_e4m3b11fnuz", {kDLFloat8_e4m3b11fnuz, 8, 1}},
    {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
    {"float8_e4m3fnuz", {kDLFloat8_e4m3fnuz, 8, 1}},
    {"float8_e5m2", {kDLFloat8_e5m2, 8, 1}},
    {"float8_e5m2fnuz", {kDLFloat8_e5m2fnuz, 8, 1}},
    {"float8_e8m0fnu", {kDLFloat8_e8m0fnu, 8, 1}},
};

// Numbers of registered types are assigned once per process, so results can be cached.
struct RegisteredType {
  int number;
  DLDataType type;
};
RegisteredType g_registered[32];
int g_registered_count = 0;

enum class Probe { kNotYet, kAgrees, kDisagrees };
Probe g_probe = Probe::kNotYet;

// Reads `.name`, so that a type is known by name, not by number.
WEFT_COLD DLDataType registered_type(const DtypeObject* dtype) {
  for (int index = 0; index < g_registered_count; ++index) {
    if (g_registered[index].number == dtype->number) return g_registered[index].type;
  }
  if (dtype->number < 256) return kNone;  // structured, dates, strings
  Reference name(PyObject_GetAttr(const_cast<PyObject*>(&dtype->base), g_names.name));
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return kNone;
  }
  DLDataType type = numpy_type_of_name(text);
  if (g_registered_count < 32) g_registered[g_registered_count++] = {dtype->number, type};
  return type;
}

WEFT_COLD int refuse_dtype(PyObject* array) {
  const ArrayObject* object = reinterpret_cast<const ArrayObject*>(array);
  const DtypeObject* dtype = reinterpret_cast<const DtypeObject*>(object->dtype);
  if (dtype->byte_order == '>') {
    return refuse(PyExc_ValueError,
                  "expected an array in the machine's byte order, received byte-swapped dtype %S; convert it "
                  "with array.astype(array.dtype.newbyteorder('='))",
                  object->dtype);
  }
  return refuse(PyExc_TypeError, "expected a tensor of numbers, received a NumPy array of dtype %S",
                object->dtype);
}

inline int item_shift(int bits) { return __builtin_ctz(static_cast<unsigned>(bits) >> 3); }

// base[1:, ::2]
PyObject* sliced(PyObject* base) {
  Reference one(PyLong_FromLong(1));
  Reference two(PyLong_FromLong(2));
  if (!one || !two) return nullptr;
  Reference rows(PySlice_New(one.get(), nullptr, nullptr));
  Reference columns(PySlice_New(nullptr, nullptr, two.get()));
  if (!rows || !columns) return nullptr;
  Reference index(PyTuple_Pack(2, rows.get(), columns.get()));
  return index ? PyObject_GetItem(base, index.get()) : nullptr;
}

// The address from the array's own __array_interface__.
void* interface_data(PyObject* array) {
  Reference interface(PyObject_GetAttrString(array, "__array_interface__"));
  PyObject* data = interface ? PyDict_GetItemString(interface.get(), "data") : nullptr;
  return data == nullptr || !PyTuple_Check(data) ? nullptr : PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
}

// An array that covers every field of the mirror, made and described by NumPy.
bool probe_agrees(PyObject* numpy) {
  Reference base(PyObject_CallMethod(numpy, "zeros", "((nn)s)", Py_ssize_t{3}, Py_ssize_t{8}, "int16"));
  Reference view(base ? sliced(base.get()) : nullptr);
  if (!view) return false;
  Reference call(PyObject_CallMethod(view.get(), "setflags", "O", Py_False));
  Reference dtype(PyObject_GetAttrString(view.get(), "dtype"));
  Reference number(dtype ? PyObject_GetAttrString(dtype.get(), "num") : nullptr);
  if (!call || !number) return false;
  const ArrayObject* array = reinterpret_cast<const ArrayObject*>(view.get());
  const ArrayObject* whole = reinterpret_cast<const ArrayObject*>(base.get());
  if (array->data == nullptr || array->data != interface_data(view.get()) || array->ndim != 2) return false;
  if (array->dims[0] != 2 || array->dims[1] != 4) return false;
  if (array->strides[0] != 16 || array->strides[1] != 4 || array->owner != base.get()) return false;
  if ((array->flags & kWriteable) != 0 || (whole->flags & kWriteable) == 0) return false;
  if (array->dtype != dtype.get()) return false;
  const DtypeObject* mirror = reinterpret_cast<const DtypeObject*>(array->dtype);
  return mirror->number == PyLong_AsLong(number.get()) && mirror->number == 3 && mirror->kind == 'i' &&
         mirror->byte_order == '=';
}

}  // namespace

DLDataType numpy_type_of_name(const char* name) {
  for (const NamedType& named : kNamedTypes) {
    if (std::strcmp(named.name, name) == 0) return named.type;
  }
  return kNone;
}

bool prepare_numpy() {
  if (g_probe == Probe::kNotYet) {
    PyObject* numpy = imported_module("numpy");
    if (numpy == nullptr) return false;
    g_probe = probe_agrees(numpy) ? Probe::kAgrees : Probe::kDisagrees;
    PyErr_Clear();
  }
  return g_probe == Probe::kAgrees;
}

int read_numpy(PyObject* object, const TypeEntry&, Scratch& scratch, TensorView* view) {
  const ArrayObject* array = reinterpret_cast<const ArrayObject*>(object);
  const DtypeObject* dtype = reinterpret_cast<const DtypeObject*>(array->dtype);
  DLTensor* tensor = &view->tensor;
  int number = dtype->number;
  tensor->dtype = WEFT_LIKELY(static_cast<unsigned>(number) < kBuiltinCount) ? kBuiltinTypes[number]
                                                                             : registered_type(dtype);
  if (WEFT_UNLIKELY(tensor->dtype.bits == 0 || dtype->byte_order == '>')) return refuse_dtype(object);
  int ndim = array->ndim;
  int64_t* dims = scratch.take_array<int64_t>(static_cast<size_t>(ndim) * 2);
  if (WEFT_UNLIKELY(dims == nullptr)) return -1;
  int shift = item_shift(tensor->dtype.bits);
  int64_t remainder = 0;
  for (int axis = 0; axis < ndim; ++axis) {
    int64_t stride = array->strides[axis];
    dims[axis] = array->dims[axis];
    dims[ndim + axis] = stride >> shift;
    remainder |= stride;
  }
  tensor->data = array->data;
  tensor->device = {kDLCPU, 0};
  tensor->ndim = ndim;
  tensor->shape = dims;
  tensor->strides = dims + ndim;
  tensor->byte_offset = 0;
  view->read_only = (array->flags & kWriteable) == 0;
  if (WEFT_UNLIKELY((remainder & ((int64_t{1} << shift) - 1)) != 0)) {
    for (int axis = 0; axis < ndim; ++axis) dims[ndim + axis] = array->strides[axis];
    if (strides_from_bytes(tensor, int64_t{1} << shift) != 0) return -1;
  }
  return check_data(object, *tensor);
}

int check_numpy_subclass(PyObject*) {
  return refuse(PyExc_TypeError,
                "expected a tensor, received a masked array, whose mask a kernel would not see; pass "
                "array.filled(value) or array.data");
}

}  // namespace weft
