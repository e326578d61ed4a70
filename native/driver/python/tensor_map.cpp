// SPDX-License-Identifier: Apache-2.0
//
// weft._native.TensorMap. Python checks ranges and names them (weft/driver/tensor_map.py); the driver encodes
// one only when something has changed.
#include "driver/python/tensor_map.h"

#include <cstring>
#include <new>

#include "driver/launch/encode_map.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "python/type_object.h"

namespace weft {
namespace {

using Description = MapDescription;

struct MapObject {
  PyObject_HEAD cuda::CUtensorMap* map;  // owned, 128-byte aligned
  Description described;
  bool is_encoded;
};

Type<MapObject> g_type;

MapObject* as_map(PyObject* object) { return reinterpret_cast<MapObject*>(object); }

// A tuple of exactly `count` integers into an array, each within the bounds of its type.
template <typename T>
bool read_tuple(PyObject* tuple, const char* name, Py_ssize_t count, T* values) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) {
    refuse(PyExc_ValueError, "%s is %R, expected a tuple of %zd", name, tuple, count);
    return false;
  }
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* item = PyTuple_GET_ITEM(tuple, index);
    if constexpr (sizeof(T) == 8) {
      values[index] = PyLong_AsUnsignedLongLong(item);
    } else {
      values[index] = static_cast<T>(PyLong_AsLong(item));
    }
    if (PyErr_Occurred()) return false;
  }
  return true;
}

bool encode(MapObject* self, const Description& wanted, DriverError* error) {
  if (!encode_map(wanted, self->map, error)) return false;
  self->described = wanted;
  self->is_encoded = true;
  return true;
}

// True if it was encoded, False if it was up to date.
PyObject* encode_if_changed(MapObject* self, const Description& wanted) {
  if (self->is_encoded && memcmp(&self->described, &wanted, sizeof(wanted)) == 0) Py_RETURN_FALSE;
  DriverError error;
  if (!encode(self, wanted, &error)) return set_python_error(error);
  Py_RETURN_TRUE;
}

bool check_rank(Py_ssize_t rank) {
  if (rank >= 1 && rank <= kMostMapRank) return true;
  refuse(PyExc_ValueError, "a TMA descriptor has rank 1 to 5, received %zd", rank);
  return false;
}

PyObject* fill_tiled(PyObject* self, PyObject* arguments) {
  Description wanted{};
  unsigned long long address;
  PyObject *dims, *strides, *box, *element_strides;
  if (!PyArg_ParseTuple(arguments, "KiOOOOiiii:fill_tiled", &address, &wanted.data_type, &dims, &strides,
                        &box, &element_strides, &wanted.interleave, &wanted.swizzle, &wanted.l2_promotion,
                        &wanted.fill)) {
    return nullptr;
  }
  const Py_ssize_t rank = PyObject_Length(dims);
  if (rank < 0 || !check_rank(rank)) return nullptr;
  wanted.address = address;
  wanted.rank = static_cast<int32_t>(rank);
  if (!read_tuple(dims, "dims", rank, wanted.dims) ||
      !read_tuple(strides, "strides", rank - 1, wanted.byte_strides) ||
      !read_tuple(box, "box", rank, wanted.box) ||
      !read_tuple(element_strides, "element_strides", rank, wanted.element_strides)) {
    return nullptr;
  }
  return encode_if_changed(as_map(self), wanted);
}

PyObject* fill_im2col(PyObject* self, PyObject* arguments) {
  Description wanted{};
  wanted.is_im2col = 1;
  unsigned long long address;
  PyObject *dims, *strides, *lower, *upper, *element_strides;
  if (!PyArg_ParseTuple(arguments, "KiOOOOIIOiiii:fill_im2col", &address, &wanted.data_type, &dims, &strides,
                        &lower, &upper, &wanted.channels_per_pixel, &wanted.pixels_per_column,
                        &element_strides, &wanted.interleave, &wanted.swizzle, &wanted.l2_promotion,
                        &wanted.fill)) {
    return nullptr;
  }
  const Py_ssize_t rank = PyObject_Length(dims);
  if (rank < 0 || !check_rank(rank)) return nullptr;
  if (rank < 3) {
    refuse(PyExc_ValueError, "an im2col descriptor has rank 3 to 5, received %zd", rank);
    return nullptr;
  }
  wanted.address = address;
  wanted.rank = static_cast<int32_t>(rank);
  if (!read_tuple(dims, "dims", rank, wanted.dims) ||
      !read_tuple(strides, "strides", rank - 1, wanted.byte_strides) ||
      !read_tuple(lower, "lower", rank - 2, wanted.lower) ||
      !read_tuple(upper, "upper", rank - 2, wanted.upper) ||
      !read_tuple(element_strides, "element_strides", rank, wanted.element_strides)) {
    return nullptr;
  }
  return encode_if_changed(as_map(self), wanted);
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* const kNames[] = {nullptr};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":TensorMap", const_cast<char**>(kNames)))
    return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  as_map(self)->map = new (std::nothrow) cuda::CUtensorMap{};
  if (as_map(self)->map != nullptr) return self;
  Py_DECREF(self);
  return PyErr_NoMemory();
}

void release(PyObject* self) { delete as_map(self)->map; }

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if (tensor_map_of(self) == nullptr) return -1;
  return PyBuffer_FillInfo(view, self, as_map(self)->map, sizeof(cuda::CUtensorMap), 1, flags);
}

PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(as_map(self)->map); }

PyMethodDef kMethods[] = {
    {"fill_tiled", fill_tiled, METH_VARARGS,
     "fill_tiled(address, data_type, dims, strides, box, element_strides, interleave, swizzle, l2_promotion, "
     "fill)"
     "\n--\n\nEncodes a tiled descriptor, dimensions fastest first; False if it was up to date."},
    {"fill_im2col", fill_im2col, METH_VARARGS,
     "fill_im2col(address, data_type, dims, strides, lower, upper, channels_per_pixel, pixels_per_column, "
     "element_strides, interleave, swizzle, l2_promotion, fill)"
     "\n--\n\nEncodes an im2col descriptor, dimensions fastest first; False if it was up to date."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kAttributes[] = {
    {"address", get_address, nullptr, "Host address of the 128 bytes, 128-byte aligned.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

constexpr char kDoc[] =
    "TensorMap()\n--\n\nA TMA descriptor: 128 bytes that kernels receive by value. The buffer protocol gives "
    "them.";

}  // namespace

bool is_tensor_map(PyObject* object) { return PyObject_TypeCheck(object, g_type.get()); }

const void* tensor_map_of(PyObject* object) {
  if (as_map(object)->is_encoded) return as_map(object)->map;
  refuse(
      PyExc_ValueError,
      "expected a filled TensorMap, received one that is not filled yet; call fill_tma_descriptor_tiled or "
      "fill_tma_descriptor_im2col first");
  return nullptr;
}

int add_tensor_map(PyObject* module) {
  return g_type.add(module, "weft._native.TensorMap", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                    {{Py_tp_doc, kDoc},
                     {Py_tp_new, create},
                     {Py_tp_dealloc, Type<MapObject>::dealloc<release>},
                     {Py_tp_methods, kMethods},
                     {Py_tp_getset, kAttributes},
                     {Py_bf_getbuffer, get_buffer}});
}

}  // namespace weft
