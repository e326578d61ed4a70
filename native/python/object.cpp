// SPDX-License-Identifier: Apache-2.0
//
// The owning wrapper of FFI objects that have no Python value of their own. Tensors offer DLPack, so that
// any array library can take them.
#include "python/object.h"

#include <structmember.h>

#include "ffi_library.h"
#include "module.h"
#include "python/ffi_error.h"
#include "python/interop.h"

namespace weft {
namespace {

PyTypeObject* g_type = nullptr;

TVMFFIObject* handle_of(PyObject* self) { return reinterpret_cast<Object*>(self)->handle; }

void dealloc(PyObject* self) {
  Object* object = reinterpret_cast<Object*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (object->handle != nullptr) ffi().object_dec_ref(object->handle);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* type_index(PyObject* self, void*) { return PyLong_FromLong(handle_of(self)->type_index); }

PyObject* type_key(PyObject* self, void*) {
  const TVMFFITypeInfo* info = ffi().get_type_info(handle_of(self)->type_index);
  if (info == nullptr) return PyUnicode_FromFormat("type %d", handle_of(self)->type_index);
  return PyUnicode_FromStringAndSize(info->type_key.data, static_cast<Py_ssize_t>(info->type_key.size));
}

PyObject* address(PyObject* self, void*) { return PyLong_FromVoidPtr(handle_of(self)); }

PyObject* repr(PyObject* self) {
  Reference key(type_key(self, nullptr));
  return key ? PyUnicode_FromFormat("<weft.ffi object %U at %p>", key.get(), handle_of(self)) : nullptr;
}

const DLTensor* require_tensor(PyObject* self) {
  if (handle_of(self)->type_index == kTVMFFITensor) {
    return reinterpret_cast<const DLTensor*>(handle_of(self) + 1);
  }
  PyErr_Format(PyExc_TypeError, "%R is not a tensor", self);
  return nullptr;
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  const DLTensor* tensor = require_tensor(self);
  if (tensor == nullptr) return nullptr;
  return Py_BuildValue("(ii)", static_cast<int>(tensor->device.device_type), tensor->device.device_id);
}

// A capsule that nobody consumed still owns what is in it.
template <typename Managed>
void delete_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}
void delete_versioned_capsule(PyObject* capsule) {
  delete_capsule<DLManagedTensorVersioned>(capsule, "dltensor_versioned");
}
void delete_legacy_capsule(PyObject* capsule) { delete_capsule<DLManagedTensor>(capsule, "dltensor"); }

PyObject* dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", const_cast<char**>(kNames),
                                   &stream, &version, &device, &copy)) {
    return nullptr;
  }
  if (require_tensor(self) == nullptr) return nullptr;
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "weft.ffi tensors are exported without a copy");
    return nullptr;
  }
  long major = 0;
  if (PyTuple_Check(version) && PyTuple_GET_SIZE(version) > 0) {
    major = PyLong_AsLong(PyTuple_GET_ITEM(version, 0));
    if (major == -1 && PyErr_Occurred()) return nullptr;
  }
  if (major >= 1) {
    DLManagedTensorVersioned* managed = nullptr;
    int code = ffi().tensor_to_dlpack_versioned(handle_of(self), &managed);
    if (code != 0) return raise_ffi_error(code);
    return PyCapsule_New(managed, "dltensor_versioned", delete_versioned_capsule);
  }
  DLManagedTensor* managed = nullptr;
  int code = ffi().tensor_to_dlpack(handle_of(self), &managed);
  if (code != 0) return raise_ffi_error(code);
  return PyCapsule_New(managed, "dltensor", delete_legacy_capsule);
}

PyObject* foreign_object(PyObject* self, PyObject*) { return to_foreign_object(handle_of(self)); }

PyMethodDef kMethods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)),
     METH_VARARGS | METH_KEYWORDS, "A DLPack capsule over the tensor's memory, without a copy."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(DLPack device type, device id) of the tensor."},
    {"__tvm_ffi_object__", foreign_object, METH_NOARGS, "The same object in the tvm_ffi package."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"type_index", type_index, nullptr, "The FFI type index.", nullptr},
    {"type_key", type_key, nullptr, "The FFI type's registered name.", nullptr},
    {"address", address, nullptr, "The object's address, borrowed.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef kMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_doc,
     const_cast<char*>("An FFI object, owned. Made by calls; it can be passed to other functions.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kProperties},
    {Py_tp_members, kMembers},
    {0, nullptr},
};

PyType_Spec kSpec = {"weft._native.Object", sizeof(Object), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                     kSlots};

}  // namespace

PyTypeObject* object_type() { return g_type; }

PyObject* own_object(TVMFFIObject* handle) {
  PyObject* self = g_type->tp_alloc(g_type, 0);
  if (self == nullptr) {
    ffi().object_dec_ref(handle);
    return nullptr;
  }
  reinterpret_cast<Object*>(self)->handle = handle;
  return self;
}

int add_object(PyObject* module) {
  if (g_type == nullptr) g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (g_type == nullptr) return -1;
  return PyModule_AddObjectRef(module, "Object", reinterpret_cast<PyObject*>(g_type));
}

}  // namespace weft
