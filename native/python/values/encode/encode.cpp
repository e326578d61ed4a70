// SPDX-License-Identifier: Apache-2.0
//
// One function per kind of argument, and the switch over the kinds.
#include "python/values/encode/encode.h"

#include <cstring>

#include "ffi_library.h"
#include "python/call/function.h"
#include "python/call/key.h"
#include "python/callbacks/callback.h"
#include "python/errors/ffi_error.h"
#include "python/errors/foreign_error.h"
#include "python/objects/object.h"
#include "python/readers/numpy_scalar.h"
#include "python/readers/readers.h"
#include "python/readers/stream.h"
#include "python/readers/writable.h"
#include "python/tensors/packed.h"
#include "python/tensors/tensor_cell.h"
#include "python/tensors/tensor_view.h"
#include "python/values/any.h"
#include "python/values/interop.h"
#include "python/values/moved.h"
#include "runtime/environment_stream.h"

namespace weft {
namespace {

void drop_object(void* object) { ffi().object_dec_ref(object); }
void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// A string with lone surrogates came from bytes that are not UTF-8; it becomes those bytes again.
WEFT_COLD int encode_surrogates(PyObject* object, Scratch& scratch, TVMFFIAny* value) {
  PyErr_Clear();
  PyObject* bytes = PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape");
  if (bytes == nullptr || scratch.at_end(drop_reference, bytes) != 0) return -1;
  TVMFFIByteArray content{PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
  int code = ffi().string_from_byte_array(&content, value);
  if (code == 0) return keep_owned(scratch, *value);
  raise_ffi_error(code);
  return -1;
}

int encode_text(PyObject* object, bool is_text, Scratch& scratch, TVMFFIAny* value) {
  Py_ssize_t size;
  const char* data;
  if (is_text) {
    data = PyUnicode_AsUTF8AndSize(object, &size);
    if (WEFT_UNLIKELY(data == nullptr)) return encode_surrogates(object, scratch, value);
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

inline bool has_streams(DLDevice device) {
  return device.device_type != kDLCPU && device.device_type != kDLCUDAHost &&
         device.device_type != kDLROCMHost;
}

// The first tensor on a device decides the call's stream.
int ask_stream(PyObject* object, const TypeEntry& entry, DLDevice device, CallFrame& frame) {
  frame.stream_asked = true;
  frame.stream_source = object;
  frame.stream_entry = &entry;
  frame.stream_source_device = device;
  bool found = false;
  void* stream = nullptr;
  if (current_stream(object, entry, device, &stream, &found) != 0) return -1;
  if (found) {
    frame.stream_device_type = device.device_type;
    frame.stream_device = device.device_id;
    frame.stream = stream;
  }
  const DLDeviceType kind = device.device_type == kDLROCM ? kDLROCM : kDLCUDA;
  frame.scratch.stream = found ? stream : environment_stream(kind, device.device_id);
  frame.scratch.stream_device = {kind, device.device_id};
  return 0;
}

int encode_function(PyObject* object, CallFrame& frame, TVMFFIAny* value) {
  TVMFFIObject* handle = function_object(*reinterpret_cast<Function*>(object));
  if (handle == nullptr) return -1;
  set_object(handle, value);
  return keep_owned(frame.scratch, *value);
}

// libtvm_ffi ends the process if it has to name an unregistered type.
inline int check_type_index(int32_t index) {
  const bool is_standard = (index >= kTVMFFINone && index <= kTVMFFISmallBytes) ||
                           (index >= kTVMFFIObject && index <= kTVMFFIBigInt);
  if (WEFT_LIKELY(is_standard) || find_type_info(index) != nullptr) return 0;
  return refuse(PyExc_ValueError, "no FFI type has the index %d", static_cast<int>(index));
}

// The object's owner may release it, or move it away, during the call.
int hold_object(TVMFFIObject* handle, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  if (handle == nullptr || check_type_index(handle->type_index) != 0) return -1;
  ffi().object_inc_ref(handle);
  set_object(handle, value);
  if (keep_owned(frame.scratch, *value) != 0) return -1;
  return check_object_memory(handle, flags, frame);
}

WEFT_COLD int refuse_lent(PyObject* object) {
  return refuse(PyExc_TypeError, "%s is lent for one call and cannot be prepared; pass the value it views",
                Py_TYPE(object)->tp_name);
}

WEFT_COLD int refuse_kept(const char* what) {
  return refuse(PyExc_TypeError, "a %s is valid for one call only and cannot be kept; keep a Tensor", what);
}

int encode_view(PyObject* object, uint8_t flags, const CallFrame& frame, TVMFFIAny* value) {
  if (frame.prepared != nullptr) return refuse_lent(object);
  if (frame.kept) return refuse_kept("TensorView");
  TensorDescription view = describe_tensor_view(object);
  if (view.tensor == nullptr) return -1;
  if (view.read_only && may_be_written(flags, frame)) return refuse_unwritable(nullptr, flags, frame);
  *value = {kTVMFFIDLTensorPtr, {0}, {0}};
  value->v_ptr = const_cast<DLTensor*>(view.tensor);
  return 0;
}

// The result of __tvm_ffi_object__ may be temporary, so it is kept until the call ends.
int encode_holder(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  PyObject* held = PyObject_CallMethodNoArgs(object, g_names.__tvm_ffi_object__);
  if (held == nullptr || frame.scratch.at_end(drop_reference, held) != 0) return -1;
  const TypeEntry* entry = find_type(held);
  if (entry == nullptr) return -1;
  switch (entry->kind) {
    case Kind::kFunction:
      return encode_function(held, frame, value);
    case Kind::kObject:
      return hold_object(handle_of_object(held), flags, frame, value);
    case Kind::kForeignObject:
      return hold_object(handle_of_foreign(held), flags, frame, value);
    case Kind::kTensor:
      if (is_object_type(Py_TYPE(held))) return hold_object(handle_of_object(held), flags, frame, value);
      break;
    default:
      break;
  }
  return refuse(PyExc_TypeError,
                "%s.__tvm_ffi_object__ returned %s, expected an object of weft.ffi or tvm_ffi",
                Py_TYPE(object)->tp_name, Py_TYPE(held)->tp_name);
}

// An own value, since the Any may be taken, or a loan end, during the call. What cannot be owned is passed on
// as lent, as the caller of a callback lent it.
int encode_any(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  if (frame.prepared != nullptr) return refuse_lent(object);
  const TVMFFIAny* held = value_of_any(object);
  if (held == nullptr) return -1;
  bool is_lent = held->type_index == kTVMFFIDLTensorPtr || held->type_index == kTVMFFIObjectRValueRef;
  if (is_lent && !frame.kept && Py_TYPE(object) == any_view_type()) {
    *value = *held;
    return 0;
  }
  if (own_value(*held, value) != 0 || keep_owned(frame.scratch, *value) != 0) return -1;
  return value->type_index < kTVMFFIStaticObjectBegin ? 0 : check_object_memory(value->v_obj, flags, frame);
}

int encode_index(PyObject* object, Scratch& scratch, TVMFFIAny* value) {
  Reference number(PyNumber_Index(object));
  return number ? encode_int(number.get(), scratch, value) : -1;
}

int encode_real(PyObject* object, TVMFFIAny* value) {
  *value = {kTVMFFIFloat, {0}, {0}};
  value->v_float64 = PyFloat_AsDouble(object);
  return value->v_float64 == -1.0 && PyErr_Occurred() ? -1 : 0;
}

int encode_pointer(PyObject* object, const TypeEntry& entry, CallFrame& frame, TVMFFIAny* value) {
  if (entry.protocol != nullptr) return encode_protocol(object, entry, 0, frame, value);
  Reference address(PyObject_GetAttrString(object, "value"));
  if (!address) return -1;
  *value = {kTVMFFIOpaquePtr, {0}, {0}};
  value->v_ptr = address.get() == Py_None ? nullptr : PyLong_AsVoidPtr(address.get());
  return value->v_ptr == nullptr && PyErr_Occurred() ? -1 : 0;
}

int encode_callable(PyObject* object, CallFrame& frame, TVMFFIAny* value) {
  TVMFFIObject* handle = make_callback(object, CallbackOptions());
  if (handle == nullptr) return -1;
  set_object(handle, value);
  return keep_owned(frame.scratch, *value);
}

int encode_exception(PyObject* object, CallFrame& frame, TVMFFIAny* value) {
  TVMFFIObject* error = error_of_exception(object);
  if (error == nullptr) return -1;
  set_object(error, value);
  return keep_owned(frame.scratch, *value);
}

WEFT_COLD int refuse_type(PyObject* object, CallFrame& frame) {
  frame.unknown = object;
  return refuse(PyExc_TypeError,
                "expected a tensor, number, string, stream, None, or a tuple of these, received %s",
                Py_TYPE(object)->tp_name);
}

// Kinds for foreign functions only.
int encode_any_value(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                     TVMFFIAny* value) {
  switch (entry.kind) {
    case Kind::kMoved:
      if (encode_moved(object, frame.scratch, value) != 0) return -1;
      return check_object_memory(*static_cast<TVMFFIObject**>(value->v_ptr), flags, frame);
    case Kind::kDict:
      return encode_dict(object, flags, frame, value);
    case Kind::kDataType:
      return encode_data_type(object, value);
    case Kind::kDevice:
      return encode_device(object, value);
    case Kind::kShape:
      return encode_shape(object, frame.scratch, value);
    case Kind::kIndex:
      return encode_index(object, frame.scratch, value);
    case Kind::kReal:
      return encode_real(object, value);
    case Kind::kProtocol:
      return encode_protocol(object, entry, flags, frame, value);
    case Kind::kException:
      return encode_exception(object, frame, value);
    case Kind::kRecord:
      if (Py_TYPE(object)->tp_call == nullptr) return encode_opaque(object, frame, value);
      return encode_callable(object, frame, value);
    case Kind::kCallable:
      return encode_callable(object, frame, value);
    default:
      return encode_opaque(object, frame, value);
  }
}

// A prepared call asks at each call whether the tensor's derivatives are recorded.
int note_written(PyObject* tensor, const TypeEntry& entry, uint8_t flags, CallFrame& frame) {
  const bool counts = (flags & kArgumentWritten) != 0;
  if (WEFT_LIKELY(frame.prepared == nullptr) && check_written(tensor, entry, counts) != 0) return -1;
  auto* written = static_cast<WrittenTensor*>(frame.scratch.take(sizeof(WrittenTensor)));
  if (WEFT_UNLIKELY(written == nullptr)) return -1;
  *written = {tensor, &entry, frame.written, counts};
  frame.written = written;
  return 0;
}

}  // namespace

int encode_tensor(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame, TVMFFIAny* value,
                  PyObject* packed) {
  auto* view = static_cast<TensorView*>(frame.scratch.take(sizeof(TensorView)));
  if (WEFT_UNLIKELY(view == nullptr) || read_tensor(object, entry, frame.scratch, view) != 0) return -1;
  if (WEFT_UNLIKELY(packed != nullptr) && pack_view(packed, frame.scratch, view) != 0) return -1;
  if (WEFT_UNLIKELY(view->read_only || view->copied) && check_array_memory(*view, entry, flags, frame) != 0) {
    return -1;
  }
  if ((flags & (kArgumentWritten | kArgumentRead)) != 0 && entry.family == Family::kTorch &&
      note_written(object, entry, flags, frame) != 0) {
    return -1;
  }
  PyObject* source = object;
  if (WEFT_UNLIKELY(frame.prepared != nullptr)) {
    source = hold_memory(object, entry, *view, frame.prepared, frame.scratch);
    if (source == nullptr) return -1;
  }
  if (frame.context.tensors == nullptr) frame.context.tensors = &entry;
  DLDevice device = view->tensor.device;
  if (WEFT_UNLIKELY(has_streams(device)) && !frame.stream_asked &&
      ask_stream(object, entry, device, frame) != 0) {
    return -1;
  }
  value->zero_padding = 0;
  if (frame.owned_tensors) {
    TVMFFIObject* cell = take_cell(source, entry, *view, frame.scratch);
    if (WEFT_UNLIKELY(cell == nullptr)) return -1;
    value->type_index = kTVMFFITensor;
    value->v_obj = cell;
    return 0;
  }
  value->type_index = kTVMFFIDLTensorPtr;
  value->v_ptr = &view->tensor;
  return 0;
}

int keep_owned(Scratch& scratch, const TVMFFIAny& value) {
  if (value.type_index < kTVMFFIStaticObjectBegin) return 0;
  return scratch.at_end(drop_object, value.v_obj);
}

int encode_int(PyObject* object, Scratch& scratch, TVMFFIAny* value) {
  value->type_index = kTVMFFIInt;
  value->zero_padding = 0;
  int overflow = 0;
  value->v_int64 = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (WEFT_LIKELY(overflow == 0)) return value->v_int64 == -1 && PyErr_Occurred() ? -1 : 0;
  Reference number(PyNumber_Index(object));  // the overflow may have come from its __index__
  if (!number) return -1;
  object = number.get();
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

namespace {

// As its array would be: that decides the stream, and is checked and counted as written.
int encode_packed(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value) {
  PyObject* array = packed_array(object);
  const TypeEntry* entry = find_type(array);
  if (entry == nullptr) return -1;
  if (entry->kind == Kind::kTensor) return encode_tensor(array, *entry, flags, frame, value, object);
  auto* view = static_cast<TensorView*>(frame.scratch.take(sizeof(TensorView)));
  if (view == nullptr) return -1;
  view->copied = false;
  view->exported = nullptr;
  const int found = view_of(array, *entry, frame.scratch, view);
  if (found == 0) return refuse_type(array, frame);
  if (found < 0 || pack_view(object, frame.scratch, view) != 0) return -1;
  if (view->read_only && check_array_memory(*view, *entry, flags, frame) != 0) return -1;
  if (frame.owned_tensors || frame.prepared != nullptr) {
    return refuse(
        PyExc_TypeError,
        "packed elements in a tensor of weft.ffi cannot be returned or prepared; pack an array of another "
        "library, such as numpy.asarray(tensor)");
  }
  value->zero_padding = 0;
  value->type_index = kTVMFFIDLTensorPtr;
  value->v_ptr = &view->tensor;
  return 0;
}

}  // namespace

int encode_argument(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                    TVMFFIAny* value) {
  if (WEFT_UNLIKELY((flags & kArgumentStream) != 0) && entry.kind != Kind::kPointer) {
    return encode_stream(object, value);
  }
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
      return hold_object(handle_of_object(object), flags, frame, value);
    case Kind::kTensorView:
      return encode_view(object, flags, frame, value);
    case Kind::kAny:
      return encode_any(object, flags, frame, value);
    case Kind::kForeignObject:
      return hold_object(handle_of_foreign(object), flags, frame, value);
    case Kind::kForeignHolder:
      return encode_holder(object, flags, frame, value);
    case Kind::kStream:
      return encode_stream(object, value);
    case Kind::kAdapter:
      return encode_adapted(object, entry, flags, frame, value);
    case Kind::kPacked:
      return encode_packed(object, flags, frame, value);
    case Kind::kPointer:
      return encode_pointer(object, entry, frame, value);
    case Kind::kRecord:
      // Foreign functions receive a named tuple whole, and any other object as itself.
      if (!frame.any_value) return encode_record(object, entry, flags, frame, value);
      if (PyTuple_Check(object)) return encode_sequence(object, flags, frame, value);
      break;
    case Kind::kShape:
      if (!frame.any_value) return encode_sequence(object, flags, frame, value);
      break;
    default:
      break;
  }
  return frame.any_value ? encode_any_value(object, entry, flags, frame, value) : refuse_type(object, frame);
}

int encode_opaque(PyObject* object, CallFrame& frame, TVMFFIAny* value) {
  TVMFFIObject* opaque = make_opaque(object);
  if (opaque == nullptr) return -1;
  set_object(opaque, value);
  return keep_owned(frame.scratch, *value);
}

int own_value(const TVMFFIAny& view, TVMFFIAny* value) {
  if (view.type_index == kTVMFFIDLTensorPtr) return refuse_kept("DLTensor*");
  if (check_type_index(view.type_index) != 0) return -1;
  int code = ffi().any_view_to_owned_any(&view, value);
  if (code == 0) return 0;
  raise_ffi_error(code);
  return -1;
}

int encode_owned(PyObject* object, Writer writer, TVMFFIAny* value) {
  const TypeEntry* entry = find_type(object);
  if (entry == nullptr) return -1;
  CallFrame frame;
  frame.owned_tensors = true;
  frame.any_value = true;
  frame.writer = writer;
  frame.kept = true;
  TVMFFIAny view;
  if (encode_argument(object, *entry, 0, frame, &view) != 0) return -1;
  if (view.type_index == kTVMFFIObjectRValueRef) {
    return refuse(PyExc_TypeError, "a moved object is valid for one call only and cannot be kept");
  }
  return own_value(view, value);
}

}  // namespace weft
