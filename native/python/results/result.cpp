// SPDX-License-Identifier: Apache-2.0
//
// Results: plain values, strings, containers, functions, and an owning wrapper for everything else. Tensors
// and containers have their own files.
#include "python/results/result.h"

#include <cstring>

#include "python/call/function.h"
#include "python/errors/ffi_error.h"
#include "python/objects/object.h"
#include "python/objects/owned_object.h"
#include "python/values/interop.h"
#include "python/values/value_class.h"

namespace weft {
namespace {

PyObject* integer_of_words(const TVMFFIAny& value) {
  TVMFFIByteArray words = ffi().big_int_content(&value);
  return _PyLong_FromByteArray(reinterpret_cast<const unsigned char*>(words.data), words.size,
                               /*little_endian=*/1, /*is_signed=*/1);
}

void add_reference(const TVMFFIAny& value) {
  if (value.type_index >= kTVMFFIStaticObjectBegin) ffi().object_inc_ref(value.v_obj);
}

PyObject* opaque_to_python(TVMFFIObject* object) {
  OwnedObject owned(object);
  return Py_NewRef(static_cast<PyObject*>(contents<TVMFFIOpaqueObjectCell>(object)->handle));
}

PyObject* text_to_python(TVMFFIObject* object) {
  OwnedObject owned(object);
  const auto* bytes = contents<TVMFFIByteArray>(object);
  auto size = static_cast<Py_ssize_t>(bytes->size);
  return object->type_index == kTVMFFIStr ? PyUnicode_DecodeUTF8(bytes->data, size, "surrogateescape")
                                          : PyBytes_FromStringAndSize(bytes->data, size);
}

// With containers copied into Python's own.
PyObject* object_to_value(TVMFFIAny value, const ResultPolicy& policy) {
  switch (value.type_index) {
    case kTVMFFIArray:
      return array_to_python(value.v_obj, policy);
    case kTVMFFIMap:
      return map_to_python(value.v_obj, policy);
    case kTVMFFIShape: {
      OwnedObject owned(value.v_obj);
      const auto* shape = contents<TVMFFIShapeCell>(owned.get());
      return shape_to_python(shape->data, static_cast<Py_ssize_t>(shape->size));
    }
    case kTVMFFIError: {
      OwnedObject owned(value.v_obj);
      return exception_of_error(owned.get());
    }
    default:
      return own_object(value.v_obj);
  }
}

PyObject* object_to_python(TVMFFIAny value, const ResultPolicy& policy) {
  switch (value.type_index) {
    case kTVMFFIStr:
    case kTVMFFIBytes:
      return text_to_python(value.v_obj);
    case kTVMFFITensor:
      return tensor_to_python(value.v_obj, policy);
    case kTVMFFIBigInt: {
      OwnedObject owned(value.v_obj);
      return integer_of_words(value);
    }
    case kTVMFFIFunction:
      return function_of_object(value.v_obj);
    case kTVMFFIOpaquePyObject:
      return opaque_to_python(value.v_obj);
    default:
      break;
  }
  if (policy.objects == ObjectMode::kValues) return object_to_value(value, policy);
  if (policy.objects == ObjectMode::kObjects) return own_object(value.v_obj);
  OwnedObject owned(value.v_obj);
  return to_foreign_object(owned.get());
}

// Moves an rvalue reference's object out of the caller's slot, which is left empty.
PyObject* move_from_slot(TVMFFIAny reference, const ResultPolicy& policy) {
  auto* slot = static_cast<TVMFFIObject**>(reference.v_ptr);
  TVMFFIAny value = {};
  if (*slot == nullptr) {
    PyErr_SetString(PyExc_ValueError, "a moved argument has been moved from already");
    return nullptr;
  }
  value.type_index = (*slot)->type_index;
  value.v_obj = *slot;
  *slot = nullptr;
  return result_to_python(value, policy);
}

constexpr const char* kModeNames[] = {"values", "objects", "tvm_ffi"};

}  // namespace

const char* object_mode_name(ObjectMode mode) { return kModeNames[static_cast<size_t>(mode)]; }

int set_object_mode(PyObject* mode, ResultPolicy* policy) {
  policy->objects = ObjectMode::kValues;
  if (mode == nullptr || mode == Py_None) return 0;
  uint8_t index = 0;
  for (const char* name : kModeNames) {
    if (PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, name) == 0) {
      policy->objects = static_cast<ObjectMode>(index);
      return 0;
    }
    ++index;
  }
  return refuse(PyExc_ValueError, "expected objects= as 'values', 'objects' or 'tvm_ffi', received %R", mode);
}

PyObject* result_to_python(TVMFFIAny value, const ResultPolicy& policy) {
  switch (value.type_index) {
    case kTVMFFINone:
      Py_RETURN_NONE;
    case kTVMFFIInt:
      return PyLong_FromLongLong(value.v_int64);
    case kTVMFFIBool:
      return PyBool_FromLong(value.v_int64 != 0);
    case kTVMFFIFloat:
      return PyFloat_FromDouble(value.v_float64);
    case kTVMFFIOpaquePtr:
      return PyLong_FromVoidPtr(value.v_ptr);
    case kTVMFFIDataType:
      return data_type_to_python(value.v_dtype);
    case kTVMFFIDevice:
      return device_to_python(value.v_device);
    case kTVMFFISmallStr:
      return PyUnicode_DecodeUTF8(value.v_bytes, static_cast<Py_ssize_t>(value.small_str_len),
                                  "surrogateescape");
    case kTVMFFISmallBytes:
      return PyBytes_FromStringAndSize(value.v_bytes, static_cast<Py_ssize_t>(value.small_str_len));
    default:
      break;
  }
  if (value.type_index >= kTVMFFIStaticObjectBegin) return object_to_python(value, policy);
  bool is_lent = value.type_index == kTVMFFIDLTensorPtr;
  PyErr_Format(
      PyExc_RuntimeError,
      is_lent
          ? "a foreign function returned a DLTensor* (type index %d) for a value to keep, and nothing owns "
            "its memory; it must return a Tensor"
          : "a foreign function returned a value of type index %d, which is not one that can be kept",
      value.type_index);
  return nullptr;
}

PyObject* view_to_python(const TVMFFIAny& value, const ResultPolicy& policy) {
  if (value.type_index == kTVMFFIRawStr) {
    return PyUnicode_DecodeUTF8(value.v_c_str, static_cast<Py_ssize_t>(std::strlen(value.v_c_str)),
                                "surrogateescape");
  }
  if (value.type_index == kTVMFFIByteArrayPtr) {
    const auto* bytes = static_cast<const TVMFFIByteArray*>(value.v_ptr);
    return PyBytes_FromStringAndSize(bytes->data, static_cast<Py_ssize_t>(bytes->size));
  }
  if (value.type_index == kTVMFFIObjectRValueRef) return move_from_slot(value, policy);
  add_reference(value);
  return result_to_python(value, policy);
}

}  // namespace weft
