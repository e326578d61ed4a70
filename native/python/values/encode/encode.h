// SPDX-License-Identifier: Apache-2.0
//
// From Python arguments to FFI values. Values borrow from the arguments and from the call's scratch.
#ifndef WEFT_PYTHON_ENCODE_H_
#define WEFT_PYTHON_ENCODE_H_

#include "python/call/call_plan.h"
#include "python/gil.h"
#include "python/readers/torch_version.h"
#include "python/values/type_table.h"

namespace weft {

// Who may write into the arrays of a value; they do not receive read-only ones.
enum class Writer : uint8_t {
  kNobody,   // or a kernel, by the argument's flags
  kCallee,   // a foreign function not declared as only reading
  kHolders,  // all who share the value from now on
};

// The state of one call while its arguments are encoded.
struct CallFrame {
  CallContext context;
  Scratch scratch;
  bool owned_tensors = false;  // tensors as reference-counted objects instead of DLTensor*
  bool any_value = false;      // the callee is foreign: dicts, callables, dtypes and the rest are accepted
  Writer writer = Writer::kNobody;
  bool kept = false;               // the value outlives the call: values lent to the call are refused
  int32_t stream_device_type = 0;  // 0: no stream was found
  int32_t stream_device = 0;
  void* stream = nullptr;
  bool stream_asked = false;         // the first tensor on a device decides
  PyObject* items = nullptr;         // borrowed: the plan of the container being encoded
  PyObject* failed_item = nullptr;   // borrowed: the path to the item that failed, such as "[1].x"
  PyObject* unknown = nullptr;       // borrowed: the refused object of unknown class
  WrittenTensor* written = nullptr;  // torch's tensors that the callee writes into
  // Borrowed: the argument, if values must last as long as the frame, not for one call only; then their
  // sources are held until the scratch ends.
  PyObject* prepared = nullptr;
  // The tensor that determined the stream, if `stream_asked`.
  PyObject* stream_source;
  const TypeEntry* stream_entry;
  DLDevice stream_source_device;
};

// Every kind of argument; `flags` are ArgumentFlags. Returns 0, or -1 with an exception that does not name
// the argument yet.
int encode_argument(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                    TVMFFIAny* value);

// An object of no FFI type as itself: for callbacks that understand it, and for wrappers that refuse it.
int encode_opaque(PyObject* object, CallFrame& frame, TVMFFIAny* value);

// The most frequent kind alone: an entry of Kind::kTensor.
int encode_tensor(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame, TVMFFIAny* value,
                  PyObject* packed = nullptr);

// Any Python value as an FFI value that the caller owns, and that `writer` may write into. Returns 0, or -1
// with an exception set.
int encode_owned(PyObject* object, Writer writer, TVMFFIAny* value);

// The only way from a borrowed value to an owned one: a string is copied, an object gets a reference, and
// what cannot be owned is refused. Returns 0, or -1 with an exception set.
int own_value(const TVMFFIAny& view, TVMFFIAny* value);

// An int of any size: as an int if it fits 64 bits, else as an owned big integer.
int encode_int(PyObject* object, Scratch& scratch, TVMFFIAny* value);

// encode_container.cpp: a tuple or list as ffi.Array, a dict as ffi.Map; a named tuple or frozen dataclass as
// an ffi.Array of its passed fields, comparing the others with those compiled for; a registered type's
// adapted value. `frame.failed_item` locates a failing item.
int encode_sequence(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value);
int encode_record(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                  TVMFFIAny* value);
int encode_adapted(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                   TVMFFIAny* value);
int encode_dict(PyObject* object, uint8_t flags, CallFrame& frame, TVMFFIAny* value);
int encode_shape(PyObject* object, Scratch& scratch, TVMFFIAny* value);

// The values of an object's attributes with these names, as a new tuple.
PyObject* field_values(PyObject* object, PyObject* names);

// encode_type.cpp: element types, devices, and the values of tvm_ffi's protocols.
int encode_data_type(PyObject* object, TVMFFIAny* value);
int encode_data_type_name(PyObject* text, TVMFFIAny* value);
int encode_device(PyObject* object, TVMFFIAny* value);
int encode_protocol(PyObject* object, const TypeEntry& entry, uint8_t flags, CallFrame& frame,
                    TVMFFIAny* value);

// Keeps the value's object, if it is one, until the call ends. Returns 0, or -1 with MemoryError.
int keep_owned(Scratch& scratch, const TVMFFIAny& value);

inline void set_object(TVMFFIObject* object, TVMFFIAny* value) {
  value->type_index = object->type_index;
  value->zero_padding = 0;
  value->v_obj = object;
}

#if PY_VERSION_HEX >= 0x030C0000
inline bool is_small_int(PyObject* object) {
  return PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(object)) != 0;
}
inline int64_t small_int_value(PyObject* object) {
  return PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject*>(object));
}
#else
inline bool is_small_int(PyObject* object) { return Py_SIZE(object) >= -1 && Py_SIZE(object) <= 1; }
inline int64_t small_int_value(PyObject* object) {
  Py_ssize_t sign = Py_SIZE(object);
  return sign == 0 ? 0 : sign * static_cast<int64_t>(reinterpret_cast<PyLongObject*>(object)->ob_digit[0]);
}
#endif

}  // namespace weft

#endif  // WEFT_PYTHON_ENCODE_H_
