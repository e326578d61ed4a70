// SPDX-License-Identifier: Apache-2.0
//
// Element types and devices, as weft, NumPy, torch and tvm_ffi spell them; and the protocols by which a class
// gives its instances' FFI value.
#include <cstring>

#include "ffi_library.h"
#include "python/errors/ffi_error.h"
#include "python/readers/readers.h"
#include "python/values/encode/encode.h"

namespace weft {
namespace {

int set_data_type(DLDataType type, TVMFFIAny* value) {
  value->type_index = kTVMFFIDataType;
  value->zero_padding = 0;
  value->v_int64 = 0;
  value->v_dtype = type;
  return 0;
}

int set_device(DLDevice device, TVMFFIAny* value) {
  value->type_index = kTVMFFIDevice;
  value->zero_padding = 0;
  value->v_device = device;
  return 0;
}

// Small non-negative integers of a tuple; false with an exception.
bool read_numbers(PyObject* tuple, long* numbers, Py_ssize_t count) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) {
    PyErr_Format(PyExc_TypeError, "expected a tuple of %zd numbers, received %R", count, tuple);
    return false;
  }
  for (Py_ssize_t index = 0; index < count; ++index) {
    int overflow = 0;
    numbers[index] = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(tuple, index), &overflow);
    if (numbers[index] == -1 && PyErr_Occurred()) {
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
      PyErr_Format(PyExc_TypeError, "expected a tuple of %zd numbers, received %R", count, tuple);
      return false;
    }
    if (overflow != 0 || numbers[index] < 0 || numbers[index] > INT32_MAX) {
      PyErr_Format(PyExc_ValueError, "expected numbers from 0 to 2147483647, received %R", tuple);
      return false;
    }
  }
  return true;
}

int data_type_of_tuple(PyObject* tuple, TVMFFIAny* value) {
  long numbers[3];
  if (!read_numbers(tuple, numbers, 3)) return -1;
  if (numbers[0] > 255 || numbers[1] > 255 || numbers[2] > 65535) {
    return refuse(PyExc_ValueError, "expected (code, bits, lanes) of at most (255, 255, 65535), received %R",
                  tuple);
  }
  return set_data_type(
      {static_cast<uint8_t>(numbers[0]), static_cast<uint8_t>(numbers[1]), static_cast<uint16_t>(numbers[2])},
      value);
}

// The integer attribute of an object, or -1 with an exception.
long number_attribute(PyObject* object, const char* name) {
  Reference number(PyObject_GetAttrString(object, name));
  return number ? PyLong_AsLong(number.get()) : -1;
}

// `object.code_name`, `.bits` and, if present, `.lanes`.
int data_type_of_attributes(PyObject* object, const char* code_name, bool has_lanes, TVMFFIAny* value) {
  long code = number_attribute(object, code_name);
  long bits = PyErr_Occurred() ? -1 : number_attribute(object, "bits");
  long lanes = PyErr_Occurred() ? -1 : has_lanes ? number_attribute(object, "lanes") : 1;
  if (PyErr_Occurred()) return -1;
  return set_data_type({static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)},
                       value);
}

// Names that libtvm_ffi does not know: those of types that NumPy lacks, complex ones, and torch's for two
// 4-bit floats in a byte.
DLDataType special_type(const char* name) {
  constexpr struct {
    const char* name;
    DLDataType type;
  } kRows[] = {
      {"float4_e2m1fn_x2", {kDLFloat4_e2m1fn, 4, 2}},
      {"complex32", {kDLComplex, 32, 1}},
      {"complex64", {kDLComplex, 64, 1}},
      {"complex128", {kDLComplex, 128, 1}},
  };
  for (const auto& row : kRows) {
    if (std::strcmp(row.name, name) == 0) return row.type;
  }
  return numpy_type_of_name(name);
}

// "float32", "bfloat16", "int8x4". 0, or -1 without an exception.
int data_type_of_name(const char* name, DLDataType* type) {
  *type = special_type(name);
  if (type->bits != 0) return 0;
  TVMFFIByteArray bytes{name, std::strlen(name)};
  int code = ffi().data_type_from_string(&bytes, type);
  if (code == 0) return 0;
  raise_ffi_error(code);
  PyErr_Clear();
  return -1;
}

struct DeviceName {
  const char* name;
  DLDeviceType type;
};
constexpr DeviceName kTorchDevices[] = {
    {"cpu", kDLCPU},       {"cuda", kDLCUDA}, {"xpu", kDLOneAPI},           {"mps", kDLMetal},
    {"maia", kDLMAIA},     {"hip", kDLROCM},  {"privateuseone", kDLExtDev}, {"vulkan", kDLVulkan},
    {"opencl", kDLOpenCL},
};

int torch_device(PyObject* object, TVMFFIAny* value) {
  Reference type(PyObject_GetAttrString(object, "type"));
  Reference index(type ? PyObject_GetAttrString(object, "index") : nullptr);
  const char* name = index ? PyUnicode_AsUTF8(type.get()) : nullptr;
  if (name == nullptr) return -1;
  long ordinal = index.get() == Py_None ? 0 : PyLong_AsLong(index.get());
  if (ordinal == -1 && PyErr_Occurred()) return -1;
  Reference hip(imported_attribute("torch.version", "hip"));
  bool is_rocm = hip && hip.get() != Py_None;
  for (const DeviceName& row : kTorchDevices) {
    if (std::strcmp(row.name, name) != 0) continue;
    return set_device({row.type == kDLCUDA && is_rocm ? kDLROCM : row.type, static_cast<int32_t>(ordinal)},
                      value);
  }
  return refuse(PyExc_TypeError, "expected a device known to DLPack, received %R", object);
}

int device_of_tuple(PyObject* tuple, TVMFFIAny* value) {
  long numbers[2];
  if (!read_numbers(tuple, numbers, 2)) return -1;
  return set_device({static_cast<DLDeviceType>(numbers[0]), static_cast<int32_t>(numbers[1])}, value);
}

// A protocol's method returned the wrong kind of value. Unrelated exceptions, such as an interrupt, pass
// through.
WEFT_COLD int refuse_answer(PyObject* object, PyObject* method, PyObject* given, const char* expected) {
  const bool is_wrong_kind = PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_TypeError) ||
                             PyErr_ExceptionMatches(PyExc_ValueError) ||
                             PyErr_ExceptionMatches(PyExc_OverflowError);
  if (!is_wrong_kind) return -1;
  PyErr_Clear();
  return refuse(PyExc_TypeError, "%s.%U() returned %R, expected %s", Py_TYPE(object)->tp_name, method, given,
                expected);
}

int pointer_of(PyObject* number, TVMFFIAny* value) {
  value->type_index = kTVMFFIOpaquePtr;
  value->zero_padding = 0;
  value->v_ptr = number == Py_None ? nullptr : PyLong_AsVoidPtr(number);
  return value->v_ptr == nullptr && PyErr_Occurred() ? -1 : 0;
}

void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

}  // namespace

int encode_data_type(PyObject* object, TVMFFIAny* value) {
  if (PyObject_HasAttrString(object, "dlpack_code")) {
    return data_type_of_attributes(object, "dlpack_code", false, value);  // weft.f32
  }
  if (PyObject_HasAttrString(object, "type_code")) {
    return data_type_of_attributes(object, "type_code", true, value);  // tvm_ffi.dtype
  }
  Reference name(PyObject_GetAttr(object, g_names.name));  // numpy.dtype
  if (!name && !PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
  if (!name) PyErr_Clear();
  Reference text(name ? name.release() : PyObject_Str(object));  // str(torch.float32) is "torch.float32"
  const char* whole = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (whole == nullptr) return -1;
  const char* dot = std::strrchr(whole, '.');
  DLDataType type;
  if (data_type_of_name(dot == nullptr ? whole : dot + 1, &type) == 0) return set_data_type(type, value);
  return refuse(PyExc_TypeError, "expected an element type known to DLPack, received %R", object);
}

int encode_data_type_name(PyObject* text, TVMFFIAny* value) {
  const char* name = PyUnicode_AsUTF8(text);
  DLDataType type;
  if (name == nullptr) return -1;
  if (data_type_of_name(name, &type) == 0) return set_data_type(type, value);
  return refuse(PyExc_ValueError, "unknown element type %R; names are like 'float32'", text);
}

int encode_device(PyObject* object, TVMFFIAny* value) {
  if (!PyObject_HasAttrString(object, "dlpack_device_type")) return torch_device(object, value);
  Reference type(PyObject_CallMethod(object, "dlpack_device_type", nullptr));  // tvm_ffi.Device
  Reference index(type ? PyObject_GetAttrString(object, "index") : nullptr);
  Reference pair(index ? PyTuple_Pack(2, type.get(), index.get()) : nullptr);
  return pair ? device_of_tuple(pair.get(), value) : -1;
}

int encode_protocol(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                    TVMFFIAny* value) {
  PyObject* given = PyObject_CallMethodNoArgs(object, entry.protocol);
  if (given == nullptr || frame.scratch.at_end(drop_reference, given) != 0) return -1;
  if (entry.protocol == g_names.__dlpack_data_type__) return data_type_of_tuple(given, value);
  if (entry.protocol == g_names.__dlpack_device__) return device_of_tuple(given, value);
  if (entry.protocol == g_names.__tvm_ffi_opaque_ptr__) {
    if (pointer_of(given, value) == 0) return 0;
    return refuse_answer(object, entry.protocol, given, "an address or None");
  }
  if (entry.protocol == g_names.__tvm_ffi_int__) {
    if (!PyIndex_Check(given)) return refuse_answer(object, entry.protocol, given, "an int");
    return encode_int(given, frame.scratch, value);
  }
  if (entry.protocol == g_names.__tvm_ffi_float__) {
    *value = {kTVMFFIFloat, {0}, {0}};
    value->v_float64 = PyFloat_AsDouble(given);
    if (value->v_float64 != -1.0 || !PyErr_Occurred()) return 0;
    return refuse_answer(object, entry.protocol, given, "a float");
  }
  const TypeEntry* given_entry = find_type(given);  // __tvm_ffi_value__: any value
  if (given_entry == nullptr || Py_EnterRecursiveCall(" while asking for an FFI value")) return -1;
  int failed = encode_argument(given, *given_entry, flags, frame, value);
  Py_LeaveRecursiveCall();
  return failed;
}

}  // namespace weft
