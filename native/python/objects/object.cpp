// SPDX-License-Identifier: Apache-2.0
//
// The owning wrapper of FFI objects. Its classes are in weft.ffi; this file ensures that every reference is
// released once, by whichever thread drops the wrapper last.
#include "python/objects/object.h"

#include <structmember.h>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/errors/ffi_error.h"
#include "python/type_object.h"
#include "python/values/interop.h"

namespace weft {
namespace {

Type<Object> g_type;

Object* as_object(PyObject* self) { return reinterpret_cast<Object*>(self); }

void release(PyObject* self) {
  Object* object = as_object(self);
  if (object->handle != nullptr) ffi().object_dec_ref(object->handle);
  object->handle = nullptr;
}

// The class of a wrapper made as `type`: the object's own class where `type` is one of its bases, so that
// equal wrappers hash alike, and `type` where it derives from that class. Borrowed; nullptr with TypeError
// for others.
PyTypeObject* class_for_handle(PyTypeObject* type, const TVMFFIObject* handle) {
  PyTypeObject* own = class_of_index(handle->type_index);
  if (own == nullptr || PyType_IsSubtype(own, type)) return own;
  if (PyType_IsSubtype(type, own)) return type;
  Reference key(type_key_of_index(handle->type_index));
  if (key) {
    PyErr_Format(PyExc_TypeError,
                 "%s: expected a handle of its type, received one of type %U, whose class is %s",
                 type->tp_name, key.get(), own->tp_name);
  }
  return nullptr;
}

// `borrowed` has no default: the caller must know whose reference it is.
PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"handle", "borrowed", nullptr};
  PyObject* address;
  int borrowed;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O$p:Object", const_cast<char**>(kNames), &address,
                                   &borrowed)) {
    return nullptr;
  }
  if (!PyLong_Check(address)) {
    PyErr_Format(PyExc_TypeError, "%s: expected an address as handle, received %s", type->tp_name,
                 Py_TYPE(address)->tp_name);
    return nullptr;
  }
  auto* handle = static_cast<TVMFFIObject*>(PyLong_AsVoidPtr(address));
  if (handle == nullptr) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s: the handle is null", type->tp_name);
    return nullptr;
  }
  if (require_library() != 0) return nullptr;
  type = class_for_handle(type, handle);
  if (type == nullptr) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  if (borrowed) ffi().object_inc_ref(handle);
  as_object(self)->handle = handle;
  return self;
}

PyObject* get_type_index(PyObject* self, void*) {
  TVMFFIObject* handle = handle_of_object(self);
  return handle == nullptr ? nullptr : PyLong_FromLong(handle->type_index);
}

PyObject* get_type_key(PyObject* self, void*) {
  TVMFFIObject* handle = handle_of_object(self);
  return handle == nullptr ? nullptr : type_key_of_index(handle->type_index);
}

PyObject* get_address(PyObject* self, void*) {
  TVMFFIObject* handle = handle_of_object(self);
  return handle == nullptr ? nullptr : PyLong_FromVoidPtr(handle);
}

PyObject* get_is_moved(PyObject* self, void*) { return PyBool_FromLong(as_object(self)->handle == nullptr); }

PyObject* get_reference_count(PyObject* self, void*) {
  TVMFFIObject* handle = handle_of_object(self);
  if (handle == nullptr) return nullptr;
  uint64_t count = __atomic_load_n(&handle->combined_ref_count, __ATOMIC_RELAXED);
  return PyLong_FromUnsignedLong(static_cast<uint32_t>(count));
}

PyObject* release(PyObject* self, PyObject*) {
  TVMFFIObject* handle = handle_of_object(self);
  if (handle == nullptr) return nullptr;
  PyObject* address = PyLong_FromVoidPtr(handle);
  if (address != nullptr) as_object(self)->handle = nullptr;
  return address;
}

PyObject* same_as(PyObject* self, PyObject* other) {
  if (!is_object_type(Py_TYPE(other))) Py_RETURN_FALSE;
  return PyBool_FromLong(as_object(self)->handle == as_object(other)->handle);
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  if (operation == Py_NE) {  // a subclass's ==, which this slot of its base would hide
    PyObject* equal = PyObject_RichCompare(self, other, Py_EQ);
    if (equal == nullptr) return nullptr;
    int truth = PyObject_IsTrue(equal);
    Py_DECREF(equal);
    return truth < 0 ? nullptr : PyBool_FromLong(truth == 0);
  }
  if (operation != Py_EQ || !is_object_type(Py_TYPE(other))) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(as_object(self)->handle == as_object(other)->handle);
}

Py_hash_t hash(PyObject* self) {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_HashPointer(as_object(self)->handle);
#else
  return _Py_HashPointer(as_object(self)->handle);
#endif
}

PyObject* repr(PyObject* self) {
  TVMFFIObject* handle = as_object(self)->handle;
  if (handle == nullptr) return PyUnicode_FromFormat("<%s, moved from>", Py_TYPE(self)->tp_name);
  Reference key(type_key_of_index(handle->type_index));
  return key ? PyUnicode_FromFormat("<weft.ffi object %U at %p>", key.get(), handle) : nullptr;
}

PyObject* foreign_object(PyObject* self, PyObject*) {
  TVMFFIObject* handle = handle_of_object(self);
  return handle == nullptr ? nullptr : to_foreign_object(handle);
}

PyObject* refuse_pickle(PyObject* self, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%s is a handle of this process and cannot be pickled or copied",
               Py_TYPE(self)->tp_name);
  return nullptr;
}

PyMethodDef kMethods[] = {
    {"release", release, METH_NOARGS,
     "release() -> int\n--\n\n"
     "Gives the object's reference to the caller, as its address, and leaves the wrapper empty."},
    {"same_as", same_as, METH_O, "same_as(other) -> bool\n--\n\nWhether both wrap the same FFI object."},
    {"__tvm_ffi_object__", foreign_object, METH_NOARGS, "The same object in the tvm_ffi package."},
    {"__reduce__", refuse_pickle, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"type_index", get_type_index, nullptr, "The FFI type index.", nullptr},
    {"type_key", get_type_key, nullptr, "The FFI type's registered name.", nullptr},
    {"address", get_address, nullptr, "The object's address, borrowed from this wrapper.", nullptr},
    {"is_moved", get_is_moved, nullptr, "Whether the reference was given away.", nullptr},
    {"reference_count", get_reference_count, nullptr, "Strong references, for tests and diagnosis.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef kMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

const char kDoc[] =
    "Object(handle, *, borrowed)\n--\n\n"
    "Owns one reference to the FFI object at an address. `borrowed=True` adds a reference of its own,\n"
    "`borrowed=False` takes over the caller's.";

}  // namespace

PyTypeObject* object_type() { return g_type.get(); }

bool is_object_type(PyTypeObject* type) { return PyType_IsSubtype(type, g_type.get()) != 0; }

TVMFFIObject* handle_of_object(PyObject* object) {
  TVMFFIObject* handle = as_object(object)->handle;
  if (WEFT_UNLIKELY(handle == nullptr)) {
    PyErr_Format(PyExc_ValueError, "this %s has been moved from and holds no object",
                 Py_TYPE(object)->tp_name);
  }
  return handle;
}

PyObject* own_object(TVMFFIObject* handle) {
  PyTypeObject* type = class_of_index(handle->type_index);
  PyObject* self = type == nullptr ? nullptr : type->tp_alloc(type, 0);
  if (self == nullptr) {
    ffi().object_dec_ref(handle);
    return nullptr;
  }
  as_object(self)->handle = handle;
  return self;
}

int add_object(PyObject* module) {
  return g_type.add(module, "weft._native.Object",
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                    {{Py_tp_doc, kDoc},
                     {Py_tp_new, create},
                     {Py_tp_dealloc, Type<Object>::dealloc<release>},
                     {Py_tp_repr, repr},
                     {Py_tp_richcompare, compare},
                     {Py_tp_hash, hash},
                     {Py_tp_methods, kMethods},
                     {Py_tp_getset, kProperties},
                     {Py_tp_members, kMembers}});
}

}  // namespace weft
