// SPDX-License-Identifier: Apache-2.0
//
// The classes are written in Python and imported when the first such value is met; their native helpers are
// at the end.
#include "python/values/value_class.h"

#include <memory>
#include <new>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/errors/ffi_error.h"
#include "python/objects/object.h"
#include "python/results/result.h"
#include "python/tensors/dlpack_export.h"
#include "python/tensors/tensor_view.h"
#include "python/values/encode/encode.h"

namespace weft {
namespace {

// `module.name`, kept for the life of the process. Borrowed.
PyObject* value_class(PyObject** cache, const char* module, const char* name) {
  if (*cache != nullptr) return *cache;
  Reference imported(PyImport_ImportModule(module));
  if (imported) *cache = PyObject_GetAttrString(imported.get(), name);
  return *cache;
}

PyObject* device_pair(PyObject*, PyObject* object) {
  TVMFFIAny value;
  const TypeEntry* entry = require_library() != 0 ? nullptr : find_type(object);
  if (entry == nullptr) return nullptr;
  CallFrame frame;
  bool is_protocol = entry->kind == Kind::kProtocol && entry->protocol == g_names.__dlpack_device__;
  if (entry->kind == Kind::kDevice ? encode_device(object, &value) != 0
      : is_protocol ? encode_protocol(object, *entry, 0, frame, &value) != 0
                    : refuse(PyExc_TypeError, "expected a device or its name, received %R", object) != 0) {
    return nullptr;
  }
  return Py_BuildValue("(ii)", static_cast<int>(value.v_device.device_type), value.v_device.device_id);
}

// numpy.dtype of a class of NumPy's scalars, such as numpy.float32; nullptr for anything else.
PyObject* dtype_of_scalar_class(PyObject* object) {
  if (!PyType_Check(object)) return nullptr;
  Reference generic(imported_attribute("numpy", "generic"));
  if (!generic || !PyType_Check(generic.get()) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object),
                        reinterpret_cast<PyTypeObject*>(generic.get()))) {
    return nullptr;
  }
  Reference constructor(imported_attribute("numpy", "dtype"));
  return constructor ? PyObject_CallOneArg(constructor.get(), object) : nullptr;
}

// As libtvm_ffi reads them: those of a scalable vector are negative.
int signed_lanes(DLDataType type) { return static_cast<int16_t>(type.lanes); }

PyObject* data_type_triple(PyObject*, PyObject* object) {
  TVMFFIAny value;
  const TypeEntry* entry = require_library() != 0 ? nullptr : find_type(object);
  if (entry == nullptr) return nullptr;
  CallFrame frame;
  bool is_protocol = entry->kind == Kind::kProtocol && entry->protocol == g_names.__dlpack_data_type__;
  Reference dtype(dtype_of_scalar_class(object));
  if (dtype) {
    if (encode_data_type(dtype.get(), &value) != 0) return nullptr;
  } else if (PyErr_Occurred()) {
    return nullptr;
  } else if (entry->kind == Kind::kStr) {
    if (encode_data_type_name(object, &value) != 0) return nullptr;
  } else if (entry->kind == Kind::kDataType) {
    if (encode_data_type(object, &value) != 0) return nullptr;
  } else if (!is_protocol) {
    PyErr_Format(PyExc_TypeError, "expected an element type or its name, received %R", object);
    return nullptr;
  } else if (encode_protocol(object, *entry, 0, frame, &value) != 0) {
    return nullptr;
  }
  return Py_BuildValue("(iii)", value.v_dtype.code, value.v_dtype.bits, signed_lanes(value.v_dtype));
}

PyObject* data_type_name(PyObject*, PyObject* arguments) {
  unsigned char code, bits;
  unsigned short lanes;
  if (!PyArg_ParseTuple(arguments, "bbH:data_type_name", &code, &bits, &lanes)) return nullptr;
  if (code == kDLComplex && lanes == 1) return PyUnicode_FromFormat("complex%d", static_cast<int>(bits));
  if (require_library() != 0) return nullptr;
  DLDataType type{code, bits, lanes};
  const bool is_one_vector = signed_lanes(type) == -1;  // which the library reads, but writes as one element
  if (is_one_vector) type.lanes = 1;
  TVMFFIAny text;
  int failed = ffi().data_type_to_string(&type, &text);
  if (failed != 0) return raise_ffi_error(failed);
  Reference name(result_to_python(text, ResultPolicy()));
  return !name           ? nullptr
         : is_one_vector ? PyUnicode_FromFormat("%Uxvscalex1", name.get())
                         : Py_NewRef(name.get());
}

// The dims and strides, in `dims`, of a tensor whose elements are taken for others of `bits`: of the same
// size; of half the size, which are pairs along a last dim of 2; of double the size, in place of such pairs.
int take_elements_for(int64_t bits, int64_t* dims, DLTensor* tensor) {
  const int64_t own = int64_t{tensor->dtype.bits} * tensor->dtype.lanes;
  const int32_t last = tensor->ndim - 1;
  const bool halves = own == 2 * bits;
  const bool doubles = bits == 2 * own && last >= 0 && tensor->shape[last] == 2 && tensor->strides[last] == 1;
  if (!halves && !doubles && own != bits) {
    return refuse(PyExc_ValueError, "export_as: elements of %lld bits cannot be taken for some of %lld",
                  static_cast<long long>(own), static_cast<long long>(bits));
  }
  const int32_t ndim = tensor->ndim + (halves ? 1 : 0) - (doubles ? 1 : 0);
  int64_t* strides = dims + ndim;
  for (int32_t axis = 0; axis < ndim; ++axis) {
    const bool is_pair = axis == tensor->ndim;
    dims[axis] = is_pair ? 2 : tensor->shape[axis];
    const int64_t stride = is_pair ? 1 : tensor->strides[axis];
    if (doubles && stride % 2 != 0 && dims[axis] > 1) {
      return refuse(PyExc_ValueError, "export_as: strides[%d] = %lld is odd", axis,
                    static_cast<long long>(stride));
    }
    strides[axis] = doubles ? stride / 2 : halves && !is_pair ? stride * 2 : stride;
  }
  tensor->ndim = ndim;
  tensor->shape = dims;
  tensor->strides = strides;
  return 0;
}

// A tensor's export with elements of another type, for libraries that do not know the original.
PyObject* export_as(PyObject*, PyObject* arguments, PyObject* keywords) {
  PyObject* source = PyTuple_GET_SIZE(arguments) == 3 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
  bool exports =
      source != nullptr && (is_object_type(Py_TYPE(source)) || Py_TYPE(source) == tensor_view_type());
  if (!exports) {
    PyErr_SetString(PyExc_TypeError, "export_as takes a tensor, a DLPack code and a number of bits");
    return nullptr;
  }
  const DLTensor* tensor = describe_tensor(source).tensor;
  if (tensor == nullptr) return nullptr;
  DLTensor changed = *tensor;
  const long code = PyLong_AsLong(PyTuple_GET_ITEM(arguments, 1));
  const long bits = PyLong_AsLong(PyTuple_GET_ITEM(arguments, 2));
  if (PyErr_Occurred()) return nullptr;
  std::unique_ptr<int64_t[]> dims(new (std::nothrow) int64_t[static_cast<size_t>(tensor->ndim + 1) * 2]);
  if (dims == nullptr) return PyErr_NoMemory();
  if (take_elements_for(bits, dims.get(), &changed) != 0) return nullptr;
  changed.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  Reference nothing(PyTuple_New(0));
  ExportOptions options;
  if (!nothing || parse_export_options(nothing.get(), keywords, changed, &options) != 0) return nullptr;
  options.is_bare =
      false;  // weft takes the capsule itself, or passes it to the consumer that called __dlpack__
  uint64_t flags = describe_tensor(source).read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  Keeper keeper{};
  if (keep_tensor(source, &keeper) != 0) return nullptr;
  return export_capsule(changed, flags, options, keeper);
}

PyMethodDef kMethods[] = {
    {"device_pair", device_pair, METH_O,
     "device_pair(device) -> tuple[int, int]\n--\n\nDLDeviceType and index of any library's device."},
    {"data_type_triple", data_type_triple, METH_O,
     "data_type_triple(dtype) -> tuple[int, int, int]\n--\n\nCode, bits and lanes of any library's dtype."},
    {"data_type_name", data_type_name, METH_VARARGS,
     "data_type_name(code, bits, lanes) -> str\n--\n\nlibtvm_ffi's name of an element type."},
    {"export_as", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(export_as)),
     METH_VARARGS | METH_KEYWORDS,
     "export_as(tensor, code, bits, **options) -> object\n--\n\n"
     "A DLPack capsule whose elements have another type: of the same size, of half of it, in pairs along a "
     "new "
     "last dim, or of double, in place of such pairs."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* dims_to_tuple(const int64_t* dims, Py_ssize_t count) {
  PyObject* tuple = PyTuple_New(count);
  for (Py_ssize_t axis = 0; tuple != nullptr && axis < count; ++axis) {
    PyObject* dim = PyLong_FromLongLong(dims[axis]);
    if (dim == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, axis, dim);
  }
  return tuple;
}

PyObject* data_type_to_python(DLDataType type) {
  static PyObject* cache = nullptr;
  PyObject* made_by = value_class(&cache, "weft.ffi.data_type", "DataType");
  if (made_by == nullptr) return nullptr;
  return PyObject_CallFunction(made_by, "iii", type.code, type.bits, signed_lanes(type));
}

PyObject* device_to_python(DLDevice device) {
  static PyObject* cache = nullptr;
  PyObject* made_by = value_class(&cache, "weft.ffi.device", "Device");
  if (made_by == nullptr) return nullptr;
  return PyObject_CallFunction(made_by, "ii", static_cast<int>(device.device_type), device.device_id);
}

PyObject* shape_to_python(const int64_t* dims, Py_ssize_t count) {
  static PyObject* cache = nullptr;
  PyObject* made_by = value_class(&cache, "weft.ffi.container", "Shape");
  Reference tuple(made_by == nullptr ? nullptr : dims_to_tuple(dims, count));
  return tuple ? PyObject_CallOneArg(made_by, tuple.get()) : nullptr;
}

int add_value_classes(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
