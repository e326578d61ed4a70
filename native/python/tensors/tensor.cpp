// SPDX-License-Identifier: Apache-2.0
//
// The native half of weft.ffi.Tensor (an owned tensor object, type index 70) and from_dlpack. Exports hold
// the tensor object itself, so their deleters need no GIL.
#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/objects/object.h"
#include "python/readers/readers.h"
#include "python/tensors/dlpack_consumer.h"
#include "python/tensors/dlpack_export.h"
#include "python/tensors/host_array.h"
#include "python/tensors/tensor_cell.h"
#include "python/tensors/tensor_properties.h"
#include "python/tensors/tensor_view.h"
#include "python/type_object.h"
#include "python/values/interop.h"

namespace weft {
namespace {

Type<Object> g_type;

// The handle of a Tensor; nullptr with an exception if it is moved from or of another kind.
TVMFFIObject* require_tensor(PyObject* self) {
  TVMFFIObject* handle = handle_of_object(self);
  if (handle == nullptr || handle->type_index == kTVMFFITensor) return handle;
  PyErr_Format(PyExc_TypeError, "%R is not a tensor", self);
  return nullptr;
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  TVMFFIObject* handle = require_tensor(self);
  if (handle == nullptr) return nullptr;
  DLDevice device = tensor_of(handle)->device;
  return Py_BuildValue("(ii)", static_cast<int>(device.device_type), device.device_id);
}

PyObject* dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  TVMFFIObject* handle = require_tensor(self);
  if (handle == nullptr) return nullptr;
  ExportOptions options;
  const Keeper keeper = keep_handle(handle);  // first: reading the arguments may run Python code
  if (parse_export_options(arguments, keywords, *tensor_of(handle), &options) != 0) {
    keeper.drop(keeper.object);
    return nullptr;
  }
  return export_capsule(*tensor_of(handle), export_flags(handle, options.versioned), options, keeper);
}

PyObject* repr(PyObject* self) {
  if (reinterpret_cast<Object*>(self)->handle == nullptr) {
    return PyUnicode_FromFormat("<%s, moved from>", Py_TYPE(self)->tp_name);
  }
  Reference shape(PyObject_GetAttrString(self, "shape"));
  Reference dtype(shape ? PyObject_GetAttrString(self, "dtype") : nullptr);
  Reference device(dtype ? PyObject_GetAttrString(self, "device") : nullptr);
  if (!device) return nullptr;
  return PyUnicode_FromFormat("<weft.ffi.Tensor of %S, shape %S, on %S>", dtype.get(), shape.get(),
                              device.get());
}

// ---- the DLPack exchange API of the class

int managed_from_python(void* object, DLManagedTensorVersioned** out) {
  TVMFFIObject* handle = require_tensor(static_cast<PyObject*>(object));
  if (handle == nullptr || check_consumer(*tensor_of(handle), true, false) != 0) return -1;
  *out = export_versioned(*tensor_of(handle), export_flags(handle, true), keep_handle(handle));
  return *out == nullptr ? -1 : 0;
}

int managed_to_python(DLManagedTensorVersioned* managed, void** out) {
  Reference capsule(PyCapsule_New(managed, "dltensor_versioned", nullptr));
  TVMFFIObject* handle = capsule ? make_tensor_of_capsule(capsule.get()) : nullptr;
  if (handle == nullptr) return -1;
  *out = own_object(handle);
  return *out == nullptr ? -1 : 0;
}

int borrow_from_python(void* object, DLTensor* out) {
  TVMFFIObject* handle = require_tensor(static_cast<PyObject*>(object));
  if (handle == nullptr) return -1;
  *out = *tensor_of(handle);
  return 0;
}

int work_stream(DLDeviceType device_type, int32_t device, void** stream) {
  *stream = ffi().env_get_stream(device_type, device);
  return 0;
}

PyObject* exchange_api(PyObject*, PyObject*) {
  static DLPackExchangeAPI api = {};
  api.header.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  api.managed_tensor_from_py_object_no_sync = managed_from_python;
  api.managed_tensor_to_py_object_no_sync = managed_to_python;
  api.dltensor_from_py_object_no_sync = borrow_from_python;
  api.current_work_stream = work_stream;
  return PyCapsule_New(&api, "dlpack_exchange_api", nullptr);
}

// ---- from_dlpack

// An object that already stands for an FFI tensor, whose handle can be shared.
TVMFFIObject* shared_handle(PyObject* value, const TypeEntry& entry) {
  TVMFFIObject* handle = nullptr;
  if (entry.kind == Kind::kObject) handle = require_tensor(value);
  if (entry.kind == Kind::kForeignObject) handle = handle_of_foreign(value);
  if (handle == nullptr || handle->type_index != kTVMFFITensor) return nullptr;
  ffi().object_inc_ref(handle);
  return handle;
}

TVMFFIObject* tensor_of_array(PyObject* value, const TypeEntry& entry, bool writable) {
  Scratch scratch;
  TensorView view;
  if (read_tensor(value, entry, scratch, &view) != 0) return nullptr;
  if (writable && entry.immutable) view.read_only = false;
  return make_tensor(value, entry, view);
}

WEFT_COLD PyObject* refuse_read_only(TVMFFIObject* handle) {
  ffi().object_dec_ref(handle);
  PyErr_SetString(PyExc_BufferError,
                  "from_dlpack: the memory is read-only and cannot be made writable; pass a copy");
  return nullptr;
}

PyObject* from_dlpack(PyObject*, PyObject* arguments) {
  PyObject* value;
  int writable = 0;
  if (!PyArg_ParseTuple(arguments, "O|p:from_dlpack", &value, &writable)) return nullptr;
  if (require_library() != 0) return nullptr;
  const bool is_capsule = PyCapsule_CheckExact(value);
  const TypeEntry* entry = is_capsule ? nullptr : find_type(value);
  if (entry == nullptr && !is_capsule) return nullptr;
  TVMFFIObject* handle = is_capsule                     ? make_tensor_of_capsule(value)
                         : entry->kind == Kind::kTensor ? tensor_of_array(value, *entry, writable != 0)
                                                        : shared_handle(value, *entry);
  if (handle != nullptr && writable && is_read_only_cell(handle)) return refuse_read_only(handle);
  if (handle != nullptr) return own_object(handle);
  if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "from_dlpack: expected a tensor or a DLPack capsule, received %s",
                 Py_TYPE(value)->tp_name);
  }
  return nullptr;
}

PyMethodDef kMethods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)),
     METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule over the tensor's memory, which it keeps alive, or over a copy of it."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_numpy)),
     METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None)\n--\n\nA NumPy array of the host's memory, by NumPy's rules."},
    {"item", only_item, METH_NOARGS, "item()\n--\n\nThe only element, as a number of Python."},
    {"tolist", to_list, METH_NOARGS, "tolist()\n--\n\nThe elements as numbers, in lists of lists."},
    {"tobytes", to_bytes, METH_NOARGS,
     "tobytes() -> bytes\n--\n\nThe elements' bytes, the last dim fastest."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(DLPack device type, device id) of the tensor."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef kFunctions[] = {
    {"from_dlpack", from_dlpack, METH_VARARGS,
     "from_dlpack(value, writable=False) -> Tensor\n--\n\n"
     "A tensor object over the memory of any array, or of a DLPack capsule, which is consumed."},
    {"tensor_exchange_api", exchange_api, METH_NOARGS,
     "tensor_exchange_api() -> object\n--\n\nThe DLPack C exchange API of Tensor, as a capsule."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject* tensor_type() { return g_type.get(); }

TensorDescription describe_tensor(PyObject* self) {
  if (!is_object_type(Py_TYPE(self))) return describe_tensor_view(self);
  TVMFFIObject* handle = require_tensor(self);
  if (handle == nullptr) return {nullptr, false};
  return {tensor_of(handle), is_read_only_cell(handle)};
}

int keep_tensor(PyObject* self, Keeper* keeper) {
  if (!is_object_type(Py_TYPE(self))) {
    *keeper = keep_tensor_view(self);
    return 0;
  }
  TVMFFIObject* handle = require_tensor(self);
  if (handle == nullptr) return -1;
  *keeper = keep_handle(handle);
  return 0;
}

int add_tensor(PyObject* module) {
  if (g_type.add(module, "weft._native.Tensor",
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                 {{Py_tp_doc, "Tensor(handle, *, borrowed)\n--\n\nAn owned FFI tensor."},
                  {Py_tp_repr, repr},
                  {Py_tp_methods, kMethods},
                  {Py_tp_getset, kTensorProperties},
                  {Py_bf_getbuffer, get_buffer},
                  {Py_bf_releasebuffer, release_buffer},
                  {Py_mp_length, tensor_length},
                  {Py_mp_subscript, tensor_item},
                  {Py_mp_ass_subscript, set_tensor_item}},
                 object_type()) != 0)
    return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace weft
