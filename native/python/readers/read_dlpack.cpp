// SPDX-License-Identifier: Apache-2.0
//
// DLPack producers: the C exchange API of the type, and the __dlpack__ method with versioned and legacy
// capsules. A producer's export is kept until the call ends.
#include <cstring>

#include "python/readers/readers.h"
#include "python/readers/stream.h"
#include "runtime/environment_stream.h"

namespace weft {
namespace {

void delete_versioned(void* managed) {
  auto* tensor = static_cast<DLManagedTensorVersioned*>(managed);
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

void delete_legacy(void* managed) {
  auto* tensor = static_cast<DLManagedTensor*>(managed);
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

int read_flags(PyObject* object, uint64_t flags, TensorView* view) {
  if ((flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0) {
    return refuse(PyExc_TypeError, "expected packed elements, received %s with padded sub-byte elements",
                  Py_TYPE(object)->tp_name);
  }
  view->read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  view->copied = (flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0;
  return 0;
}

void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// A negative stride in bytes that the producer has divided by the element size as an unsigned number, as CuPy
// 14 does: the quotient lies in the upper half of those of 64 bits, where no stride inside the address space
// does. Multiplied back in 64 bits, it is the stride in bytes again.
int64_t repaired_stride(int64_t stride, uint64_t item_bytes) {
  const auto quotient = static_cast<uint64_t>(stride);
  const bool is_damaged =
      item_bytes > 1 && quotient >= (uint64_t{1} << 63) / item_bytes && quotient <= UINT64_MAX / item_bytes;
  return is_damaged ? static_cast<int64_t>(quotient * item_bytes) / static_cast<int64_t>(item_bytes) : stride;
}

// Copies the producer's description, whose arrays may die with the producer's object.
int take_tensor(PyObject* object, const DLTensor& source, Scratch& scratch, TensorView* view) {
  view->tensor = source;
  if (source.ndim < 0 || (source.ndim > 0 && source.shape == nullptr)) {
    return refuse(PyExc_ValueError, "%s exports a DLPack tensor without a shape", Py_TYPE(object)->tp_name);
  }
  if (copy_dims(scratch, source.shape, source.strides, source.ndim, &view->tensor) != 0) return -1;
  const uint64_t item_bytes = (uint64_t{source.dtype.bits} * source.dtype.lanes + 7) / 8;
  for (int32_t axis = 0; source.strides != nullptr && axis < source.ndim; ++axis) {
    view->tensor.strides[axis] = repaired_stride(source.strides[axis], item_bytes);
  }
  return check_extent(object, view->tensor) != 0 ? -1 : check_data(object, view->tensor);
}

// Reports the producer's error as weft's own: DLPack prescribes BufferError, which callers of a kernel do
// not expect. Errors that are not about the object pass through: a handler's TimeoutError, MemoryError,
// RecursionError.
WEFT_COLD int refuse_export(PyObject* object) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type == nullptr) {
    return refuse(PyExc_TypeError, "expected a tensor; %s returns no DLPack tensor",
                  Py_TYPE(object)->tp_name);
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  bool ordinary = PyErr_GivenExceptionMatches(type, PyExc_Exception) &&
                  !PyErr_GivenExceptionMatches(type, PyExc_MemoryError) &&
                  !PyErr_GivenExceptionMatches(type, PyExc_OSError) &&
                  !PyErr_GivenExceptionMatches(type, PyExc_RecursionError);
  if (!ordinary) {
    PyErr_Restore(type, value, traceback);
    return -1;
  }
  Py_XDECREF(traceback);
  Py_DECREF(type);
  refuse(PyExc_TypeError, "expected a tensor; %s cannot be exported through DLPack: %S",
         Py_TYPE(object)->tp_name, value);
  PyObject *own_type, *own_value, *own_traceback;
  PyErr_Fetch(&own_type, &own_value, &own_traceback);
  PyErr_NormalizeException(&own_type, &own_value, &own_traceback);
  PyException_SetCause(own_value, value);
  PyErr_Restore(own_type, own_value, own_traceback);
  return -1;
}

PyObject* call_dlpack(PyObject* object, PyObject* method, PyObject* stream, bool versioned) {
  Reference options(PyDict_New());
  Reference version(Py_BuildValue("(ii)", 1, 1));
  Reference nothing(PyTuple_New(0));
  if (!options || !version || !nothing) return nullptr;
  if (versioned && PyDict_SetItem(options.get(), g_names.max_version, version.get()) != 0) return nullptr;
  if (stream != nullptr && PyDict_SetItem(options.get(), g_names.stream, stream) != 0) return nullptr;
  PyObject* capsule = PyObject_Call(method, nothing.get(), options.get());
  if (capsule != nullptr || !versioned || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
  PyErr_Clear();  // a producer from before DLPack 1.0 does not know max_version
  return call_dlpack(object, method, stream, false);
}

// The stream to give the producer: the call's, which is the producer's own if its array is the first.
int consumer_stream(PyObject* object, const TypeEntry& entry, const Scratch& scratch, Reference* stream) {
  Reference device(PyObject_CallMethodNoArgs(object, g_names.__dlpack_device__));
  if (!device) return -1;
  int type = 0;
  int id = 0;
  if (!PyArg_ParseTuple(device.get(), "ii", &type, &id)) return -1;
  if (type != kDLCUDA && type != kDLCUDAManaged && type != kDLROCM) return 0;
  const DLDeviceType kind = type == kDLROCM ? kDLROCM : kDLCUDA;
  void* current = nullptr;
  bool found = scratch.stream_device.device_type == kind && scratch.stream_device.device_id == id;
  if (found) {
    current = scratch.stream;
  } else if (entry.names_stream && current_stream(object, entry, {kind, id}, &current, &found) != 0) {
    return -1;
  }
  if (!found) current = environment_stream(kind, id);
  // 1 is the legacy default stream of CUDA in the protocol, 0 that of ROCm.
  long long number = reinterpret_cast<long long>(current);
  stream->reset(PyLong_FromLongLong(number == 0 && type != kDLROCM ? 1 : number));
  return stream->get() == nullptr ? -1 : 0;
}

int open_capsule(PyObject* object, PyObject* capsule, Scratch& scratch, TensorView* view) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      return refuse(PyExc_TypeError, "%s exports DLPack version %u, expected version %d",
                    Py_TYPE(object)->tp_name, managed->version.major, DLPACK_MAJOR_VERSION);
    }
    if (PyCapsule_SetName(capsule, "used_dltensor_versioned") != 0) return -1;
    view->exported = scratch.keep(managed, delete_versioned);
    if (view->exported == nullptr) return -1;
    if (read_flags(object, managed->flags, view) != 0) return -1;
    return take_tensor(object, managed->dl_tensor, scratch, view);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    if (PyCapsule_SetName(capsule, "used_dltensor") != 0) return -1;
    view->exported = scratch.keep(managed, delete_legacy);
    if (view->exported == nullptr) return -1;
    view->read_only = false;
    return take_tensor(object, managed->dl_tensor, scratch, view);
  }
  if (PyCapsule_IsValid(capsule, "used_dltensor_versioned") || PyCapsule_IsValid(capsule, "used_dltensor")) {
    return refuse(PyExc_TypeError,
                  "expected an unused DLPack capsule, received one that has been used already");
  }
  return refuse(PyExc_TypeError, "expected a DLPack capsule from %s.__dlpack__, received %s",
                Py_TYPE(object)->tp_name, Py_TYPE(capsule)->tp_name);
}

}  // namespace

const DLPackExchangeAPI* find_exchange_api(PyTypeObject* type) {
  Reference capsule(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), g_names.__dlpack_c_exchange_api__));
  if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) {
    PyErr_Clear();
    return nullptr;
  }
  auto* header =
      static_cast<DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) header = header->prev_api;
  return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

// The unmanaged form is tried first; it borrows, so nothing needs releasing.
int read_exchange(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view) {
  const DLPackExchangeAPI* api = entry.exchange;
  view->read_only = false;
  if (api->dltensor_from_py_object_no_sync != nullptr) {
    DLTensor tensor;
    if (api->dltensor_from_py_object_no_sync(object, &tensor) != 0) return refuse_export(object);
    return take_tensor(object, tensor, scratch, view);
  }
  DLManagedTensorVersioned* managed = nullptr;
  if (api->managed_tensor_from_py_object_no_sync(object, &managed) != 0) return refuse_export(object);
  view->exported = scratch.keep(managed, delete_versioned);
  if (view->exported == nullptr || read_flags(object, managed->flags, view) != 0) return -1;
  return take_tensor(object, managed->dl_tensor, scratch, view);
}

int read_capsule(PyObject* capsule, Scratch& scratch, TensorView* view) {
  view->exported = nullptr;
  view->copied = false;
  return open_capsule(capsule, capsule, scratch, view);
}

bool export_for_keeping(PyObject* object, const TypeEntry& entry, Export* exported) {
  const DLPackExchangeAPI* api = entry.exchange;
  DLManagedTensorVersioned* managed = nullptr;
  if (api == nullptr || api->managed_tensor_from_py_object_no_sync == nullptr ||
      api->managed_tensor_from_py_object_no_sync(object, &managed) != 0) {
    PyErr_Clear();
    return false;
  }
  *exported = {managed, delete_versioned};
  return true;
}

int read_dlpack(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view) {
  Reference source(Py_NewRef(object));
  if (entry.family == Family::kTorch) {  // torch refuses to export what requires a gradient
    source.reset(PyObject_CallMethodNoArgs(object, g_names.detach));
    if (!source) return refuse_export(object);
  }
  Reference stream;
  if (consumer_stream(source.get(), entry, scratch, &stream) != 0) return refuse_export(object);
  Reference method(PyObject_GetAttr(source.get(), g_names.__dlpack__));
  Reference capsule(method ? call_dlpack(source.get(), method.get(), stream.get(), true) : nullptr);
  if (!capsule) return refuse_export(object);
  if (scratch.at_end(drop_reference, Py_NewRef(source.get())) != 0) return -1;
  return open_capsule(object, capsule.get(), scratch, view);
}

}  // namespace weft
