// SPDX-License-Identifier: Apache-2.0
//
// Results: plain values, strings, sequences, tensors in the caller's own library, functions, and an owning
// wrapper for everything else.
#include "python/result.h"

#include "ffi_library.h"
#include "python/ffi_error.h"
#include "python/function.h"
#include "python/object.h"
#include "python/tensor_cell.h"

namespace weft {
namespace {

// Drops an object's reference at the end of the scope.
class OwnedObject {
 public:
  explicit OwnedObject(TVMFFIObject* object) : object_(object) {}
  ~OwnedObject() {
    if (object_ != nullptr) ffi().object_dec_ref(object_);
  }
  OwnedObject(const OwnedObject&) = delete;
  OwnedObject& operator=(const OwnedObject&) = delete;
  TVMFFIObject* get() const { return object_; }
  TVMFFIObject* release() {
    TVMFFIObject* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  TVMFFIObject* object_;
};

template <typename Cell>
const Cell* contents(const TVMFFIObject* object) {
  return reinterpret_cast<const Cell*>(object + 1);
}

PyObject* integer_of_words(const TVMFFIAny& value) {
  TVMFFIByteArray words = ffi().big_int_content(&value);
  return _PyLong_FromByteArray(reinterpret_cast<const unsigned char*>(words.data), words.size,
                               /*little_endian=*/1, /*is_signed=*/1);
}

PyObject* shape_to_tuple(const TVMFFIObject* object) {
  const auto* shape = contents<TVMFFIShapeCell>(object);
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(shape->size));
  for (size_t axis = 0; tuple != nullptr && axis < shape->size; ++axis) {
    PyObject* dim = PyLong_FromLongLong(shape->data[axis]);
    if (dim == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(axis), dim);
  }
  return tuple;
}

// ffi.Array becomes a tuple and ffi.List a list; the elements keep their own references.
PyObject* sequence_to_python(const TVMFFIObject* object, const TypeEntry* like) {
  const auto* sequence = contents<TVMFFISeqCell>(object);
  bool is_tuple = object->type_index == kTVMFFIArray;
  Reference values(is_tuple ? PyTuple_New(sequence->size) : PyList_New(sequence->size));
  for (int64_t index = 0; values && index < sequence->size; ++index) {
    TVMFFIAny item = static_cast<const TVMFFIAny*>(sequence->data)[index];
    if (item.type_index >= kTVMFFIStaticObjectBegin) ffi().object_inc_ref(item.v_obj);
    PyObject* value = result_to_python(item, like);
    if (value == nullptr) return nullptr;
    if (is_tuple) {
      PyTuple_SET_ITEM(values.get(), index, value);
    } else {
      PyList_SET_ITEM(values.get(), index, value);
    }
  }
  return values.release();
}

// A tensor for torch or another library with an exchange API, through its own import function.
PyObject* import_tensor(TVMFFIObject* tensor, const DLPackExchangeAPI* api) {
  DLManagedTensorVersioned* managed = nullptr;
  int code = ffi().tensor_to_dlpack_versioned(tensor, &managed);
  if (code != 0) return raise_ffi_error(code);
  void* object = nullptr;
  if (api->managed_tensor_to_py_object_no_sync(managed, &object) == 0) return static_cast<PyObject*>(object);
  managed->deleter(managed);
  return nullptr;
}

// The module whose from_dlpack makes tensors of this family.
PyObject* importing_module(const TypeEntry* like, const DLTensor& tensor) {
  if (like == nullptr) return nullptr;
  if (like->family == Family::kTorch) return imported_module("torch");
  if (like->family == Family::kNumpy && tensor.device.device_type == kDLCPU) return imported_module("numpy");
  return nullptr;
}

PyObject* tensor_to_python(TVMFFIObject* object, const TypeEntry* like) {
  OwnedObject tensor(object);
  PyObject* source = source_of_cell(object);
  if (source != nullptr) return Py_NewRef(source);
  if (like != nullptr && like->exchange != nullptr &&
      like->exchange->managed_tensor_to_py_object_no_sync != nullptr) {
    return import_tensor(object, like->exchange);
  }
  PyObject* module = importing_module(like, *contents<DLTensor>(object));
  Reference owner(own_object(tensor.release()));
  if (!owner || module == nullptr) return owner.release();
  return PyObject_CallMethodOneArg(module, g_names.from_dlpack, owner.get());
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

PyObject* dtype_to_python(DLDataType dtype) {
  TVMFFIAny text;
  int code = ffi().data_type_to_string(&dtype, &text);
  return code == 0 ? result_to_python(text, nullptr) : raise_ffi_error(code);
}

PyObject* object_to_python(TVMFFIAny value, const TypeEntry* like) {
  switch (value.type_index) {
    case kTVMFFIStr:
    case kTVMFFIBytes:
      return text_to_python(value.v_obj);
    case kTVMFFITensor:
      return tensor_to_python(value.v_obj, like);
    case kTVMFFIArray:
    case kTVMFFIList: {
      OwnedObject owned(value.v_obj);
      return sequence_to_python(owned.get(), like);
    }
    case kTVMFFIShape: {
      OwnedObject owned(value.v_obj);
      return shape_to_tuple(owned.get());
    }
    case kTVMFFIBigInt: {
      OwnedObject owned(value.v_obj);
      return integer_of_words(value);
    }
    case kTVMFFIFunction:
      return function_of_object(value.v_obj);
    case kTVMFFIError: {
      OwnedObject owned(value.v_obj);
      return exception_of_error(owned.get());
    }
    case kTVMFFIOpaquePyObject:
      return opaque_to_python(value.v_obj);
    default:
      return own_object(value.v_obj);
  }
}

}  // namespace

PyObject* result_to_python(TVMFFIAny value, const TypeEntry* like) {
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
      return dtype_to_python(value.v_dtype);
    case kTVMFFIDevice:
      return Py_BuildValue("(ii)", static_cast<int>(value.v_device.device_type), value.v_device.device_id);
    case kTVMFFISmallStr:
      return PyUnicode_DecodeUTF8(value.v_bytes, static_cast<Py_ssize_t>(value.small_str_len),
                                  "surrogateescape");
    case kTVMFFISmallBytes:
      return PyBytes_FromStringAndSize(value.v_bytes, static_cast<Py_ssize_t>(value.small_str_len));
    default:
      break;
  }
  if (value.type_index >= kTVMFFIStaticObjectBegin) return object_to_python(value, like);
  PyErr_Format(PyExc_SystemError, "a function returned a value of type index %d, which cannot be returned",
               value.type_index);
  return nullptr;
}

PyObject* borrowed_to_python(TVMFFIObject* object) {
  ffi().object_inc_ref(object);
  TVMFFIAny value;
  value.type_index = object->type_index;
  value.zero_padding = 0;
  value.v_obj = object;
  return result_to_python(value, nullptr);
}

}  // namespace weft
