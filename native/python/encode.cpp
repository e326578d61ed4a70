// SPDX-License-Identifier: Apache-2.0
//
// One function per kind of argument, and the switch over the kinds.
#include "python/encode.h"

#include <cstring>

#include "ffi_library.h"
#include "python/ffi_error.h"
#include "python/function.h"
#include "python/interop.h"
#include "python/numpy_scalar.h"
#include "python/object.h"
#include "python/readers.h"
#include "python/stream.h"
#include "python/tensor_cell.h"

namespace weft {
namespace {

void drop_object(void* object) { ffi().object_dec_ref(object); }
void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

void set_object(TVMFFIObject* object, TVMFFIAny* value) {
  value->type_index = object->type_index;
  value->zero_padding = 0;
  value->v_obj = object;
}

// The value owns an object that must go when the call ends.
int keep_owned(Scratch& scratch, const TVMFFIAny& value) {
  if (value.type_index < kTVMFFIStaticObjectBegin) return 0;
  return scratch.at_end(drop_object, value.v_obj);
}

int encode_text(PyObject* object, bool is_text, Scratch& scratch, TVMFFIAny* value) {
  Py_ssize_t size;
  const char* data;
  if (is_text) {
    data = PyUnicode_AsUTF8AndSize(object, &size);
    if (WEFT_UNLIKELY(data == nullptr)) return -1;
  } else {
    data = PyBytes_AS_STRING(object);
    size = PyBytes_GET_SIZE(object);
  }
  if (size < 8) {
    value->type_index = is_text ? kTVMFFISmallStr : kTVMFFISmallBytes;
    value->small_str_len = static_cast<uint32_t>(size);
    value->v_int64 = 0;
    std::memcpy(value->v_bytes, data, static_cast<size_t>(size));
    return 0;
  }
  TVMFFIByteArray bytes{data, static_cast<size_t>(size)};
  int code =
      is_text ? ffi().string_from_byte_array(&bytes, value) : ffi().bytes_from_byte_array(&bytes, value);
  if (code != 0) {
    raise_ffi_error(code);
    return -1;
  }
  return keep_owned(scratch, *value);
}

WEFT_COLD int refuse_read_only() {
  return refuse(PyExc_ValueError,
                "expected writable memory, because a kernel writes to it, received a read-only "
                "array");
}

bool has_streams(DLDevice device) {
  return device.device_type != kDLCPU && device.device_type != kDLCUDAHost &&
         device.device_type != kDLROCMHost;
}

// The first tensor on a device decides the call's stream.
int ask_stream(PyObject* object, const TypeEntry& entry, DLDevice device, CallFrame& frame) {
  frame.stream_asked = true;
  bool found = false;
  void* stream = nullptr;
  if (current_stream(object, entry, device, &stream, &found) != 0) return -1;
  if (found) {
    frame.stream_device_type = device.device_type;
    frame.stream_device = device.device_id;
    frame.stream = stream;
  }
  return 0;
}

int encode_tensor(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                  TVMFFIAny* value) {
  auto* view = static_cast<TensorView*>(frame.scratch.take(sizeof(TensorView)));
  if (WEFT_UNLIKELY(view == nullptr) || read_tensor(object, entry, frame.scratch, view) != 0) return -1;
  if (WEFT_UNLIKELY(view->read_only) && (flags & kArgumentWritten) != 0) return refuse_read_only();
  if (frame.first_tensor == nullptr) frame.first_tensor = &entry;
  DLDevice device = view->tensor.device;
  if (WEFT_UNLIKELY(has_streams(device)) && !frame.stream_asked &&
      ask_stream(object, entry, device, frame) != 0) {
    return -1;
  }
  value->zero_padding = 0;
  if (frame.owned_tensors) {
    TVMFFIObject* cell = take_cell(object, entry, *view, frame.scratch);
    if (WEFT_UNLIKELY(cell == nullptr)) return -1;
    value->type_index = kTVMFFITensor;
    value->v_obj = cell;
    return 0;
  }
  value->type_index = kTVMFFIDLTensorPtr;
  value->v_ptr = &view->tensor;
  return 0;
}

// The registry's constructor of ffi.Array, looked up once.
TVMFFIObject* array_constructor() {
  static TVMFFIObject* constructor = nullptr;
  if (constructor != nullptr) return constructor;
  TVMFFIByteArray name{"ffi.Array", 9};
  TVMFFIObjectHandle handle = nullptr;
  int code = ffi().function_get_global(&name, &handle);
  if (code != 0) raise_ffi_error(code);
  if (code == 0 && handle == nullptr) PyErr_SetString(PyExc_SystemError, "libtvm_ffi has no ffi.Array");
  constructor = static_cast<TVMFFIObject*>(handle);
  return constructor;
}

// A tuple or list becomes an ffi.Array; tensors in it are objects, since an array owns its elements.
int encode_sequence(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  PyObject* items = PySequence_Tuple(object);  // a list may change while its elements are looked at
  if (items == nullptr || frame.scratch.at_end(drop_reference, items) != 0) return -1;
  Py_ssize_t count = PyTuple_GET_SIZE(items);
  auto* values = frame.scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
  TVMFFIObject* constructor = array_constructor();
  if (values == nullptr || constructor == nullptr) return -1;
  if (Py_EnterRecursiveCall(" while encoding nested sequences")) return -1;
  bool owned_tensors = frame.owned_tensors;
  frame.owned_tensors = true;
  int failed = 0;
  for (Py_ssize_t index = 0; index < count && failed == 0; ++index) {
    PyObject* item = PyTuple_GET_ITEM(items, index);
    const TypeEntry* entry = find_type(item);
    failed = entry == nullptr ? -1 : encode_argument(item, *entry, flags, frame, &values[index]);
  }
  frame.owned_tensors = owned_tensors;
  Py_LeaveRecursiveCall();
  if (failed != 0) return -1;
  value->type_index = kTVMFFINone;
  value->zero_padding = 0;
  value->v_int64 = 0;
  int code = ffi().function_call(constructor, values, static_cast<int32_t>(count), value);
  if (code != 0) {
    raise_ffi_error(code);
    return -1;
  }
  return keep_owned(frame.scratch, *value);
}

int encode_function(PyObject* object, CallFrame& frame, TVMFFIAny* value) {
  TVMFFIObject* handle = function_object(*reinterpret_cast<Function*>(object));
  if (handle == nullptr) return -1;
  set_object(handle, value);
  return keep_owned(frame.scratch, *value);
}

int encode_foreign(PyObject* object, TVMFFIAny* value) {
  TVMFFIObject* handle = handle_of_foreign(object);
  if (handle == nullptr) return -1;
  set_object(handle, value);
  return 0;
}

// What __tvm_ffi_object__ gives may be made for the occasion, so it is kept until the call ends.
int encode_holder(PyObject* object, CallFrame& frame, TVMFFIAny* value) {
  PyObject* held = PyObject_CallMethodNoArgs(object, g_names.__tvm_ffi_object__);
  if (held == nullptr || frame.scratch.at_end(drop_reference, held) != 0) return -1;
  return encode_foreign(held, value);
}

int encode_adapted(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                   TVMFFIAny* value) {
  PyObject* adapted = PyObject_CallOneArg(entry.adapter, object);
  if (adapted == nullptr || frame.scratch.at_end(drop_reference, adapted) != 0) return -1;
  const TypeEntry* adapted_entry = find_type(adapted);
  if (adapted_entry == nullptr) return -1;
  if (Py_EnterRecursiveCall(" while adapting an argument")) return -1;
  int failed = encode_argument(adapted, *adapted_entry, flags, frame, value);
  Py_LeaveRecursiveCall();
  return failed;
}

WEFT_COLD int refuse_type(PyObject* object) {
  return refuse(PyExc_TypeError,
                "expected a tensor, number, string, stream, None, or a tuple of these, received %s",
                Py_TYPE(object)->tp_name);
}

}  // namespace

int encode_int(PyObject* object, Scratch& scratch, TVMFFIAny* value) {
  value->type_index = kTVMFFIInt;
  value->zero_padding = 0;
  int overflow = 0;
  value->v_int64 = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (WEFT_LIKELY(overflow == 0)) return value->v_int64 == -1 && PyErr_Occurred() ? -1 : 0;
  size_t bits = _PyLong_NumBits(object);
  if (bits == static_cast<size_t>(-1) && PyErr_Occurred()) return -1;
  size_t size = (bits / 64 + 1) * 8;  // room for the sign
  auto* words = static_cast<unsigned char*>(scratch.take(size));
  if (words == nullptr) return -1;
#if PY_VERSION_HEX >= 0x030D0000
  int failed = _PyLong_AsByteArray(reinterpret_cast<PyLongObject*>(object), words, size, 1, 1, 1);
#else
  int failed = _PyLong_AsByteArray(reinterpret_cast<PyLongObject*>(object), words, size, 1, 1);
#endif
  if (failed != 0) return -1;
  TVMFFIByteArray bytes{reinterpret_cast<const char*>(words), size};
  int code = ffi().big_int_from_byte_array(&bytes, value);
  if (code != 0) {
    raise_ffi_error(code);
    return -1;
  }
  return keep_owned(scratch, *value);
}

int encode_argument(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                    TVMFFIAny* value) {
  if (WEFT_UNLIKELY((flags & kArgumentStream) != 0)) return encode_stream(object, value);
  switch (entry.kind) {
    case Kind::kTensor:
      return encode_tensor(object, entry, flags, frame, value);
    case Kind::kInt:
      return encode_int(object, frame.scratch, value);
    case Kind::kNone:
      *value = {kTVMFFINone, {0}, {0}};
      return 0;
    case Kind::kBool:
      *value = {kTVMFFIBool, {0}, {object == Py_True}};
      return 0;
    case Kind::kFloat:
      value->type_index = kTVMFFIFloat;
      value->zero_padding = 0;
      value->v_float64 = PyFloat_AS_DOUBLE(object);
      return 0;
    case Kind::kStr:
      return encode_text(object, true, frame.scratch, value);
    case Kind::kBytes:
      return encode_text(object, false, frame.scratch, value);
    case Kind::kNumpyScalar:
      return encode_numpy_scalar(object, entry, frame.scratch, value);
    case Kind::kTuple:
    case Kind::kList:
      return encode_sequence(object, flags, frame, value);
    case Kind::kFunction:
      return encode_function(object, frame, value);
    case Kind::kObject:
      set_object(reinterpret_cast<Object*>(object)->handle, value);
      return 0;
    case Kind::kForeignObject:
      return encode_foreign(object, value);
    case Kind::kForeignHolder:
      return encode_holder(object, frame, value);
    case Kind::kStream:
      return encode_stream(object, value);
    case Kind::kAdapter:
      return encode_adapted(object, entry, flags, frame, value);
    case Kind::kUnknown:
      break;
  }
  return refuse_type(object);
}

}  // namespace weft
