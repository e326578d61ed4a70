// SPDX-License-Identifier: Apache-2.0
//
// Streams: one query per call, through the C interface of the library that owns the tensor.
#include "python/readers/stream.h"

#include <dlfcn.h>

#include <initializer_list>

#include "ffi_library.h"

namespace weft {
namespace {

using TorchStream = int32_t (*)(int32_t device, void** stream);

// Resolved once torch's CUDA library is loaded; programs without it never get here.
TorchStream torch_stream_function() {
  static TorchStream function = nullptr;
  if (function != nullptr) return function;
  void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen("libtorch_hip.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  function = reinterpret_cast<TorchStream>(dlsym(library, "aoti_torch_get_current_cuda_stream"));
  return function;
}

// `object.attribute` as an address; -1 with an exception set, 0 with `*found` false if there is none.
int pointer_attribute(PyObject* object, PyObject* attribute, void** pointer, bool* found) {
  Reference value(PyObject_GetAttr(object, attribute));
  *found = false;
  if (!value) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  if (!PyLong_Check(value.get())) return 0;
  *pointer = PyLong_AsVoidPtr(value.get());
  if (*pointer == nullptr && PyErr_Occurred()) return -1;
  *found = true;
  return 0;
}

// __cuda_stream__() returns (version, pointer).
int protocol_stream(PyObject* object, void** pointer, bool* found) {
  *found = false;
  Reference method(PyObject_GetAttr(object, g_names.__cuda_stream__));
  if (!method) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  Reference pair(PyCallable_Check(method.get()) ? PyObject_CallNoArgs(method.get())
                                                : Py_NewRef(method.get()));
  if (!pair) return -1;
  if (!PyTuple_Check(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2) {
    return refuse(PyExc_TypeError, "expected (version, pointer) from __cuda_stream__ of %s, received %R",
                  Py_TYPE(object)->tp_name, pair.get());
  }
  *pointer = PyLong_AsVoidPtr(PyTuple_GET_ITEM(pair.get(), 1));
  if (*pointer == nullptr && PyErr_Occurred()) return -1;
  *found = true;
  return 0;
}

// Version 3 of the interface names the producer's stream: 1 is the legacy default, 2 the per-thread one,
// which are also the values of CUDA's own handles for them.
int interface_stream(PyObject* object, void** stream, bool* found) {
  Reference interface(PyObject_GetAttr(object, g_names.__cuda_array_interface__));
  if (!interface || !PyDict_Check(interface.get())) return interface ? 0 : -1;
  PyObject* value = PyDict_GetItem(interface.get(), g_names.stream);
  if (value == nullptr || value == Py_None) return 0;
  *stream = PyLong_AsVoidPtr(value);
  if (*stream == nullptr && PyErr_Occurred()) return -1;
  *found = true;
  return 0;
}

}  // namespace

int current_stream(PyObject* object, const TypeEntry& entry, DLDevice device, void** stream, bool* found) {
  *found = false;
  if (entry.family == Family::kTorch && (device.device_type == kDLCUDA || device.device_type == kDLROCM)) {
    TorchStream function = torch_stream_function();
    if (WEFT_LIKELY(function != nullptr) && function(device.device_id, stream) == 0) {
      *found = true;
      return 0;
    }
  }
  if (entry.exchange != nullptr && entry.exchange->current_work_stream != nullptr) {
    if (entry.exchange->current_work_stream(device.device_type, device.device_id, stream) != 0) {
      if (PyErr_Occurred()) return -1;
      return refuse(PyExc_RuntimeError, "%s cannot tell its current stream on device %d",
                    Py_TYPE(object)->tp_name, device.device_id);
    }
    *found = true;
    return 0;
  }
  if (entry.family == Family::kCudaArray) return interface_stream(object, stream, found);
  // DLPack orders the producer's work before the call; what follows the call is in order on its stream alone.
  if (entry.names_stream && device.device_type == kDLCUDA && interface_stream(object, stream, found) != 0) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Clear();  // an array that DLPack describes and the interface does not, such as JAX's of bfloat16
  }
  return 0;
}

int encode_stream(PyObject* object, TVMFFIAny* value) {
  value->zero_padding = 0;
  value->v_int64 = 0;
  if (object == Py_None) {
    value->type_index = kTVMFFINone;
    return 0;
  }
  value->type_index = kTVMFFIOpaquePtr;
  if (PyLong_Check(object) && !PyBool_Check(object)) {
    value->v_ptr = PyLong_AsVoidPtr(object);
    const bool is_too_large = value->v_ptr == nullptr && PyErr_Occurred();
    if (value->v_int64 >= 0 && !is_too_large) return 0;
    PyErr_Clear();
    return refuse(PyExc_ValueError, "expected a stream's address, received %S", object);
  }
  bool found = false;
  if (protocol_stream(object, &value->v_ptr, &found) != 0) return -1;
  for (PyObject* attribute : {g_names.cuda_stream, g_names.ptr}) {  // torch's and CuPy's
    if (!found && pointer_attribute(object, attribute, &value->v_ptr, &found) != 0) return -1;
  }
  if (found) return 0;
  return refuse(PyExc_TypeError,
                "expected a stream (an object with __cuda_stream__, an address or None), received %s",
                Py_TYPE(object)->tp_name);
}

}  // namespace weft
