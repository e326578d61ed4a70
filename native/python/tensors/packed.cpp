// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Packed: holds the array, which every call reads anew.
#include "python/tensors/packed.h"

#include <structmember.h>

#include "module.h"
#include "python/call/key.h"
#include "python/readers/readers.h"
#include "runtime/describe.h"

namespace weft {
namespace {

struct Packed {
  PyObject base;
  PyObject* array;
  unsigned char code, bits;
};

PyTypeObject* g_type = nullptr;

Packed* as_packed(PyObject* object) { return reinterpret_cast<Packed*>(object); }

int check_bytes(const DLTensor& tensor) {
  const DLDataType type = tensor.dtype;
  const bool are_pairs = type.code == kDLFloat4_e2m1fn && type.bits == 4 && type.lanes == 2;  // torch's
  if (!are_pairs && ((type.code != kDLInt && type.code != kDLUInt) || type.bits != 8 || type.lanes != 1)) {
    return refuse(PyExc_TypeError, "packed: expected an array of u8 or i8, received elements of %s",
                  describe_dtype(type).c_str());
  }
  if (tensor.ndim == 0) {
    return refuse(PyExc_ValueError, "packed: expected an array of rank 1 or more, received rank 0");
  }
  const int32_t last = tensor.ndim - 1;
  if (tensor.shape[last] > 1 && tensor.strides[last] != 1) {
    return refuse(PyExc_ValueError,
                  "packed: expected adjacent bytes along the last dimension, received strides[%d] = %lld",
                  static_cast<int>(last), static_cast<long long>(tensor.strides[last]));
  }
  return 0;
}

int refuse_rows(const char* what, int32_t axis, int64_t value, int64_t bytes) {
  return refuse(PyExc_ValueError,
                "packed: %s[%d] is %lld bytes; rows of these elements take multiples of %lld", what,
                static_cast<int>(axis), static_cast<long long>(value), static_cast<long long>(bytes));
}

int read_view(PyObject* self, Scratch& scratch, TensorView* view) {
  PyObject* array = as_packed(self)->array;
  const TypeEntry* entry = find_type(array);
  if (entry == nullptr) return -1;
  const int found = view_of(array, *entry, scratch, view);
  if (found > 0) return pack_view(self, scratch, view);
  if (found < 0) return -1;
  return refuse(PyExc_TypeError, "packed: expected an array of bytes, received %s", Py_TYPE(array)->tp_name);
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* const kNames[] = {"array", "code", "bits", nullptr};
  PyObject* array;
  unsigned char code, bits;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Obb:Packed", const_cast<char**>(kNames), &array,
                                   &code, &bits)) {
    return nullptr;
  }
  if (bits != 1 && bits != 2 && bits != 4 && bits != 6) {
    PyErr_Format(PyExc_ValueError, "packed: elements of %d bits do not fill a byte", static_cast<int>(bits));
    return nullptr;
  }
  Reference self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  as_packed(self.get())->array = Py_NewRef(array);
  as_packed(self.get())->code = code;
  as_packed(self.get())->bits = bits;
  Scratch scratch;
  TensorView view;
  return read_view(self.get(), scratch, &view) == 0 ? self.release() : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_packed(self)->array);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_packed(self)->array);
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_shape(PyObject* self, void*) {
  Scratch scratch;
  TensorView view;
  if (read_view(self, scratch, &view) != 0) return nullptr;
  PyObject* shape = PyTuple_New(view.tensor.ndim);
  for (int32_t axis = 0; shape != nullptr && axis < view.tensor.ndim; ++axis) {
    PyTuple_SET_ITEM(shape, axis, PyLong_FromLongLong(view.tensor.shape[axis]));
  }
  return shape;
}

PyMemberDef kMembers[] = {
    {"array", T_OBJECT, offsetof(Packed, array), READONLY, "The array of bytes."},
    {"code", T_UBYTE, offsetof(Packed, code), READONLY, "DLDataTypeCode of the elements."},
    {"bits", T_UBYTE, offsetof(Packed, bits), READONLY, "Bits of an element."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef kProperties[] = {
    {"shape", get_shape, nullptr, "Dims, in elements.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_members, kMembers},
    {Py_tp_getset, kProperties},
    {0, nullptr},
};

PyType_Spec kSpec = {"weft._native.Packed", sizeof(Packed), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, kSlots};

}  // namespace

PyTypeObject* packed_type() { return g_type; }

PyObject* packed_array(PyObject* self) { return as_packed(self)->array; }

int pack_view(PyObject* self, Scratch& scratch, TensorView* view) {
  const Packed& packed = *as_packed(self);
  DLTensor& tensor = view->tensor;
  if (check_bytes(tensor) != 0) return -1;
  // Elements in the fewest whole bytes, and these bytes.
  const int64_t each = packed.bits == 6 ? 4 : 8 / packed.bits;
  const int64_t bytes = each * packed.bits / 8;
  const int32_t last = tensor.ndim - 1;
  const int64_t* shape = tensor.shape;
  const int64_t* strides = tensor.strides;
  if (copy_dims(scratch, shape, strides, tensor.ndim, &tensor) != 0) return -1;
  for (int32_t axis = 0; axis < last; ++axis) {
    if (tensor.strides[axis] % bytes != 0) return refuse_rows("strides", axis, tensor.strides[axis], bytes);
    tensor.strides[axis] = tensor.strides[axis] / bytes * each;
  }
  if (tensor.shape[last] % bytes != 0) return refuse_rows("shape", last, tensor.shape[last], bytes);
  tensor.shape[last] = tensor.shape[last] / bytes * each;
  tensor.strides[last] = 1;
  tensor.dtype = {packed.code, packed.bits, 1};
  return 0;
}

int add_packed(PyObject* module) {
  if (g_type == nullptr) g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (g_type == nullptr) return -1;
  return PyModule_AddObjectRef(module, "Packed", reinterpret_cast<PyObject*>(g_type));
}

}  // namespace weft
