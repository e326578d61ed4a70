// SPDX-License-Identifier: Apache-2.0
//
// A callee that takes an object as an rvalue may change it in place if it holds the only reference. During
// the call the Python object does not hold the reference, so that no other thread can use it; a callee that
// does not take it leaves it, and the object gets it back.
#include "python/values/moved.h"

#include "ffi_library.h"
#include "module.h"
#include "python/objects/object.h"
#include "python/type_object.h"

namespace weft {
namespace {

struct Moved {
  PyObject base;
  PyObject* object;
};

// The slot that the callee empties, and its owner.
struct Slot {
  TVMFFIObject* handle;
  Object* object;
};

Type<Moved> g_type;

PyObject*& object_of(PyObject* self) { return reinterpret_cast<Moved*>(self)->object; }

void release(PyObject* self) { Py_XDECREF(object_of(self)); }

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"object", nullptr};
  PyObject* object;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:Moved", const_cast<char**>(kNames), &object)) {
    return nullptr;
  }
  if (!is_object_type(Py_TYPE(object))) {
    PyErr_Format(PyExc_TypeError, "Moved: expected an FFI object, received %s", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  if (handle_of_object(object) == nullptr) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) object_of(self) = Py_NewRef(object);
  return self;
}

void end_move(void* memory) {
  auto* slot = static_cast<Slot*>(memory);
  if (slot->handle != nullptr && slot->object->handle == nullptr) {
    slot->object->handle = slot->handle;
  } else if (slot->handle != nullptr) {
    ffi().object_dec_ref(slot->handle);
  }
  Py_DECREF(reinterpret_cast<PyObject*>(slot->object));
}

}  // namespace

PyTypeObject* moved_type() { return g_type.get(); }

int encode_moved(PyObject* moved, Scratch& scratch, TVMFFIAny* value) {
  PyObject* object = object_of(moved);
  TVMFFIObject* handle = handle_of_object(object);
  auto* slot = handle == nullptr ? nullptr : static_cast<Slot*>(scratch.take(sizeof(Slot)));
  if (slot == nullptr) return -1;
  *slot = {handle, reinterpret_cast<Object*>(Py_NewRef(object))};
  slot->object->handle = nullptr;
  *value = {kTVMFFIObjectRValueRef, {0}, {0}};
  value->v_ptr = &slot->handle;
  return scratch.at_end(end_move, slot);
}

int add_moved(PyObject* module) {
  return g_type.add(module, "weft._native.Moved", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                    {{Py_tp_doc, "Moved(object)\n--\n\nAn object whose reference the callee may take."},
                     {Py_tp_new, create},
                     {Py_tp_dealloc, Type<Moved>::dealloc<release>}});
}

}  // namespace weft
