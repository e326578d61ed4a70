// SPDX-License-Identifier: Apache-2.0
//
// Types of the extension. A type's `T` begins with its PyObject and is made as all zeros.
#ifndef WEFT_PYTHON_TYPE_OBJECT_H_
#define WEFT_PYTHON_TYPE_OBJECT_H_

#include <cstring>
#include <initializer_list>
#include <iterator>
#include <type_traits>

#include "python/common.h"

namespace weft {

// A row of a type's table: a text, an array, or a function.
struct TypeSlot {
  TypeSlot(int slot, const void* data) : row{slot, const_cast<void*>(data)} {}
  template <typename Result, typename... Arguments>
  TypeSlot(int slot, Result (*function)(Arguments...)) : row{slot, reinterpret_cast<void*>(function)} {}

  PyType_Slot row;
};

template <typename T, typename = void>
struct HasWeakReferences : std::false_type {};
template <typename T>
struct HasWeakReferences<T, std::void_t<decltype(T::weak_references)>> : std::true_type {};

// A type, made at the first import and kept for the life of the process.
template <typename T>
class Type {
 public:
  PyTypeObject* get() const { return type_; }

  // A new object; nullptr with an exception.
  PyObject* make() const { return type_->tp_alloc(type_, 0); }

  // For Py_tp_dealloc; `release` drops the object's references.
  template <void (*release)(PyObject*)>
  static void dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    if (PyType_IS_GC(type)) PyObject_GC_UnTrack(self);
    if constexpr (HasWeakReferences<T>::value) {
      if (reinterpret_cast<T*>(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    }
    release(self);
    type->tp_free(self);
    Py_DECREF(type);
  }

  // Adds the type to a module. `name` with its module; 0, or -1 with an exception.
  int add(PyObject* module, const char* name, unsigned flags, std::initializer_list<TypeSlot> slots,
          PyTypeObject* base = nullptr) {
    if (type_ == nullptr) type_ = reinterpret_cast<PyTypeObject*>(create(name, flags, slots, base));
    if (type_ == nullptr) return -1;
    return PyModule_AddObjectRef(module, strrchr(name, '.') + 1, reinterpret_cast<PyObject*>(type_));
  }

 private:
  static PyObject* create(const char* name, unsigned flags, std::initializer_list<TypeSlot> slots,
                          PyTypeObject* base) {
    PyType_Slot rows[24] = {};  // ends with a row of zeros
    if (slots.size() >= std::size(rows)) {
      PyErr_Format(PyExc_SystemError, "%s has %zu rows; make room for them in type_object.h", name,
                   slots.size());
      return nullptr;
    }
    size_t count = 0;
    for (const TypeSlot& slot : slots) rows[count++] = slot.row;
    PyType_Spec spec = {name, sizeof(T), 0, flags, rows};
    if (base == nullptr) return PyType_FromSpec(&spec);
    Reference bases(PyTuple_Pack(1, base));
    return bases ? PyType_FromSpecWithBases(&spec, bases.get()) : nullptr;
  }

  PyTypeObject* type_ = nullptr;  // one reference
};

}  // namespace weft

#endif  // WEFT_PYTHON_TYPE_OBJECT_H_
