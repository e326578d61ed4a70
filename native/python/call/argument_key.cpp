// SPDX-License-Identifier: Apache-2.0
//
// The key of a direct call: the types of its arguments without their values, as bytes; and the same facts for
// Python code. Tensors go through the readers of the call itself.
#include "driver/devices/devices.h"
#include "driver/library/driver_library.h"
#include "ffi_library.h"
#include "module.h"
#include "python/call/constant_key.h"
#include "python/call/key.h"
#include "python/objects/object.h"
#include "python/readers/readers.h"
#include "python/tensors/packed.h"
#include "python/tensors/tensor_view.h"
#include "python/values/encode/encode.h"
#include "python/values/interop.h"
#include "python/values/value_class.h"

namespace weft {
namespace {

enum LayoutClass : uint8_t { kContiguous = 0, kInner = 1, kStrided = 2 };
constexpr uint8_t kSmallInt[] = {static_cast<uint8_t>(Kind::kInt), 0};  // an int that is not wide
constexpr const char* kLayoutNames[] = {"contiguous", "inner", "strided"};

struct TensorFacts {
  DLDataType dtype;
  uint32_t wide;  // bits of the dims, and from 16 on of the strides, that need more than 32 bits
  uint8_t rank;
  uint8_t device_type;
  uint8_t layout;
  uint8_t
      alignment;  // of the address in bytes: 16, 8 or the element's size; 0 if it is not a multiple of that
  uint8_t major;  // compute capability of a GPU, 0 without a GPU or driver
  uint8_t minor;
};

// The narrowest class whose promise to compiled code holds, as the checks of `codegen/wrapper/tensors.py` see
// it: strides of dims of size 1 reach no element, and an empty tensor is contiguous whatever its strides.
LayoutClass layout_of(const DLTensor& tensor) {
  bool contiguous = true;
  uint64_t expected = 1;  // wraps for dims of stride 0, as in the checks
  for (int32_t axis = tensor.ndim; axis-- > 0;) {
    const int64_t dim = tensor.shape[axis];
    if (dim == 0) return kContiguous;
    if (dim == 1) continue;
    contiguous = contiguous && static_cast<uint64_t>(tensor.strides[axis]) == expected;
    expected *= static_cast<uint64_t>(dim);
  }
  if (contiguous) return kContiguous;
  const int32_t last = tensor.ndim - 1;
  return tensor.shape[last] == 1 || tensor.strides[last] == 1 ? kInner : kStrided;
}

// Alignment classes of a direct call's addresses: few, so that few functions are compiled.
uint8_t alignment_of(const DLTensor& tensor) {
  const uint64_t bits = static_cast<uint64_t>(tensor.dtype.bits) * tensor.dtype.lanes;
  const uint64_t bytes = bits <= 8 ? 1 : (bits + 7) / 8;
  const uint64_t address = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
  if (address % bytes != 0) return 0;
  if (bytes >= 16) return static_cast<uint8_t>(bytes > 255 ? 1 : bytes);
  if (address % 16 == 0) return 16;
  return address % 8 == 0 ? 8 : static_cast<uint8_t>(bytes);
}

// Sizes beyond 32 bits are compiled for in 64 (`Symbols.observe` of `arguments/base.py`).
bool is_wide(int64_t size) { return size > INT32_MAX || size < INT32_MIN; }

// Whether an int, which may be a size, is wide: 1, 0, or -1 with an exception.
int is_wide_int(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (value == -1 && PyErr_Occurred()) return -1;
  return overflow != 0 || is_wide(value) ? 1 : 0;
}

int add_numpy_scalar(PyObject* object, const TypeEntry& entry, Key& key) {
  key.add_value(entry.dtype);
  const bool is_integer = entry.dtype.code == kDLInt || entry.dtype.code == kDLUInt;
  if (!is_integer || entry.dtype.bits < 32) return 0;
  Reference number(PyNumber_Index(object));
  const int wide = number ? is_wide_int(number.get()) : -1;
  if (wide >= 0) key.add(static_cast<uint8_t>(wide));
  return wide < 0 ? -1 : 0;
}

TensorFacts facts_of(const DLTensor& tensor) {
  TensorFacts facts{};
  facts.dtype = tensor.dtype;
  facts.rank = static_cast<uint8_t>(tensor.ndim);
  facts.device_type = static_cast<uint8_t>(tensor.device.device_type);
  facts.layout = layout_of(tensor);
  facts.alignment = alignment_of(tensor);
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    const uint32_t bit = uint32_t{1} << (axis & 15);
    if (is_wide(tensor.shape[axis])) facts.wide |= bit;
    if (tensor.shape[axis] > 1 && is_wide(tensor.strides[axis])) facts.wide |= bit << 16;
  }
  // Code is compiled for one compute capability, from the driver's table of devices.
  if (tensor.device.device_type == kDLCUDA && driver_is_ready()) {
    const Device* device = device_or_null(tensor.device.device_id);
    if (WEFT_LIKELY(device != nullptr)) {
      facts.major = static_cast<uint8_t>(device->major);
      facts.minor = static_cast<uint8_t>(device->minor);
    }
  }
  return facts;
}

// An FFI object's tensor, or nullptr without an exception.
const DLTensor* tensor_of_object(PyObject* object, Kind kind) {
  TVMFFIObject* handle = nullptr;
  if (kind == Kind::kTensorView) return describe_tensor_view(object).tensor;
  if (kind == Kind::kObject) handle = handle_of_object(object);
  if (kind == Kind::kForeignObject) handle = handle_of_foreign(object);
  if (handle == nullptr || handle->type_index != kTVMFFITensor) return nullptr;
  return reinterpret_cast<const DLTensor*>(handle + 1);
}

// Opens the driver if nothing has used it yet, so that a call's key does not depend on that. Without a driver
// the call fails later, with an explanation.
WEFT_COLD int open_driver_for_keys() {
  Reference module(PyImport_ImportModule("weft.driver.device"));
  Reference found(module ? PyObject_CallMethod(module.get(), "find_architecture", nullptr) : nullptr);
  return found ? 0 : -1;
}

int add_items(PyObject* items, Scratch& scratch, Key& key) {
  if (Py_EnterRecursiveCall(" while examining nested sequences")) return -1;
  int failed = 0;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(items) && failed == 0; ++index) {
    failed = add_argument(PyTuple_GET_ITEM(items, index), scratch, key);
  }
  Py_LeaveRecursiveCall();
  return failed;
}

// Sizes, such as a launch's grid: whether all items are ints, whose part of the key is then added.
bool add_small_ints(PyObject* tuple, Key& key) {
  const Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* item = PyTuple_GET_ITEM(tuple, index);
    if (!PyLong_CheckExact(item) || !is_small_int(item)) return false;
  }
  for (Py_ssize_t index = 0; index < count; ++index) key.add_bytes(kSmallInt, sizeof(kSmallInt));
  return true;
}

int add_sequence(PyObject* object, const TypeEntry& entry, Scratch& scratch, Key& key) {
  if (PyTuple_CheckExact(object)) {
    key.add_value(entry.serial);
    key.add_value(static_cast<uint32_t>(PyTuple_GET_SIZE(object)));
    return add_small_ints(object, key) ? 0 : add_items(object, scratch, key);
  }
  Reference items(PySequence_Tuple(object));
  if (!items) return -1;
  key.add_value(entry.serial);  // a named tuple is not a tuple
  key.add_value(static_cast<uint32_t>(PyTuple_GET_SIZE(items.get())));
  return add_items(items.get(), scratch, key);
}

int add_record(PyObject* object, const TypeEntry& entry, Scratch& scratch, Key& key) {
  key.add_value(entry.serial);
  Reference constants(field_values(object, entry.constants));
  Reference items(constants ? field_values(object, entry.fields) : nullptr);
  if (!items) return -1;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(constants.get()); ++index) {
    if (key.add_constant(PyTuple_GET_ITEM(constants.get(), index)) != 0) return -1;
  }
  return add_items(items.get(), scratch, key);
}

int add_adapted(PyObject* object, const TypeEntry& entry, Scratch& scratch, Key& key) {
  Reference adapter(Py_NewRef(entry.adapter));
  Reference adapted(PyObject_CallOneArg(adapter.get(), object));
  if (!adapted) return -1;
  key.add_value(entry.serial);
  if (Py_EnterRecursiveCall(" while adapting an argument")) return -1;
  int failed = add_argument(adapted.get(), scratch, key);
  Py_LeaveRecursiveCall();
  return failed;
}

}  // namespace

int add_argument(PyObject* object, Scratch& scratch, Key& key) {
  if (PyLong_CheckExact(object) && is_small_int(object)) {
    key.add_bytes(kSmallInt, sizeof(kSmallInt));
    return 0;
  }
  const TypeEntry* entry = find_type(object);
  if (entry == nullptr) return -1;
  key.add(static_cast<uint8_t>(entry->kind));
  switch (entry->kind) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kFloat:
    case Kind::kStr:
    case Kind::kBytes:
    case Kind::kStream:
    case Kind::kPointer:
      return 0;
    case Kind::kInt: {
      const int wide = is_wide_int(object);
      if (wide >= 0) key.add(static_cast<uint8_t>(wide));
      return wide < 0 ? -1 : 0;
    }
    case Kind::kNumpyScalar:
      return add_numpy_scalar(object, *entry, key);
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kShape:
      return add_sequence(object, *entry, scratch, key);
    case Kind::kAdapter:
      return add_adapted(object, *entry, scratch, key);
    case Kind::kRecord:
      return add_record(object, *entry, scratch, key);
    default:
      break;
  }
  TensorView view;
  int found = view_of(object, *entry, scratch, &view);
  if (found < 0) return -1;
  if (found == 0) {
    return refuse(PyExc_TypeError,
                  "expected a tensor, number, string, stream, None, or a tuple of these, received %s",
                  Py_TYPE(object)->tp_name);
  }
  if (WEFT_UNLIKELY(view.tensor.device.device_type == kDLCUDA && !driver_is_ready())) {
    if (open_driver_for_keys() != 0) return -1;
  }
  key.add_value(facts_of(view.tensor));
  return 0;
}

namespace {

PyObject* argument_key(PyObject*, PyObject* arguments) {
  if (!PyTuple_Check(arguments)) {
    PyErr_Format(PyExc_TypeError, "argument_key: expected a tuple, received %s", Py_TYPE(arguments)->tp_name);
    return nullptr;
  }
  Key key;
  Scratch scratch;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(arguments); ++index) {
    if (add_argument(PyTuple_GET_ITEM(arguments, index), scratch, key) != 0) return nullptr;
  }
  return key.to_object();
}

PyTypeObject* g_tensor_info = nullptr;

PyObject* build_tensor_info(const TensorView& view) {
  const DLTensor& tensor = view.tensor;
  TensorFacts facts = facts_of(tensor);
  Reference info(PyStructSequence_New(g_tensor_info));
  if (!info) return nullptr;
  PyObject* values[] = {
      PyLong_FromLong(tensor.dtype.code),
      PyLong_FromLong(tensor.dtype.bits),
      PyLong_FromLong(tensor.dtype.lanes),
      PyLong_FromLong(tensor.device.device_type),
      PyLong_FromLong(tensor.device.device_id),
      dims_to_tuple(tensor.shape, tensor.ndim),
      dims_to_tuple(tensor.strides, tensor.ndim),
      PyLong_FromVoidPtr(tensor.data),
      PyLong_FromUnsignedLongLong(tensor.byte_offset),
      PyBool_FromLong(view.read_only),
      PyUnicode_FromString(kLayoutNames[facts.layout]),
      PyLong_FromLong(facts.alignment),
  };
  Py_ssize_t index = 0;
  for (PyObject* value : values) PyStructSequence_SetItem(info.get(), index++, value);
  return PyErr_Occurred() ? nullptr : info.release();
}

PyObject* tensor_info(PyObject*, PyObject* object) {
  const TypeEntry* entry = find_type(object);
  if (entry == nullptr) return nullptr;
  Scratch scratch;
  TensorView view;
  int found = view_of(object, *entry, scratch, &view);
  if (found == 0) Py_RETURN_NONE;
  return found > 0 ? build_tensor_info(view) : nullptr;
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kStr:
      return "str";
    case Kind::kBytes:
      return "bytes";
    case Kind::kNumpyScalar:
      return "numpy_scalar";
    case Kind::kTensor:
    case Kind::kPacked:
      return "tensor";
    case Kind::kTuple:
    case Kind::kShape:
      return "tuple";
    case Kind::kList:
      return "list";
    case Kind::kFunction:
      return "function";
    case Kind::kObject:
    case Kind::kForeignObject:
    case Kind::kForeignHolder:
      return "object";
    case Kind::kStream:
      return "stream";
    case Kind::kAdapter:
      return "adapter";
    case Kind::kRecord:
      return "record";
    case Kind::kPointer:
      return "pointer";
    case Kind::kTensorView:
    case Kind::kMoved:
    case Kind::kAny:
    case Kind::kDict:
    case Kind::kDataType:
    case Kind::kDevice:
    case Kind::kIndex:
    case Kind::kReal:
    case Kind::kProtocol:
    case Kind::kException:
    case Kind::kCallable:
    case Kind::kUnknown:
      break;
  }
  return "unknown";
}

PyObject* describe(PyObject*, PyObject* object) {
  const TypeEntry* entry = find_type(object);
  if (entry == nullptr) return nullptr;
  if (entry->kind == Kind::kNumpyScalar) {
    return Py_BuildValue("(s(iii))", kind_name(entry->kind), entry->dtype.code, entry->dtype.bits,
                         entry->dtype.lanes);
  }
  Scratch scratch;
  TensorView view;
  int found = view_of(object, *entry, scratch, &view);
  if (found < 0) return nullptr;
  if (found > 0) return Py_BuildValue("(sN)", "tensor", build_tensor_info(view));
  return Py_BuildValue("(sO)", kind_name(entry->kind), Py_None);
}

PyObject* constant_key_method(PyObject*, PyObject* value) { return constant_key(value); }

PyMethodDef kMethods[] = {
    {"argument_key", argument_key, METH_O,
     "argument_key(arguments: tuple) -> bytes | tuple\n--\n\n"
     "The types of a call's arguments: Python types, dtypes, ranks, device types with the GPU's compute\n"
     "capability, layout classes, alignment of 16, 8 or an element's bytes, and whether ints, dims and "
     "strides need\n"
     "more than 32 bits, but no value, dimension or address. TypeError names a type that cannot be an "
     "argument. Valid in this\n"
     "process only. A tuple, with the values of compile-time fields, if records have such."},
    {"constant_key", constant_key_method, METH_O,
     "constant_key(value) -> tuple\n--\n\n"
     "Equal for compile-time values that compile to the same code, and only for these: 1, 1.0 and True\n"
     "differ, 0.0 and -0.0 too, NaN is itself."},
    {"tensor_info", tensor_info, METH_O,
     "tensor_info(value) -> TensorInfo | None\n--\n\n"
     "A tensor's address and layout, strides in elements; None for objects other than a "
     "tensor.\n"
     "TypeError or ValueError for tensors that no kernel can use."},
    {"describe", describe, METH_O,
     "describe(value) -> tuple[str, object]\n--\n\n"
     "The kind of an argument, and its TensorInfo, its dtype, or None."},
    {nullptr, nullptr, 0, nullptr},
};

PyStructSequence_Field kFields[] = {
    {"dtype_code", "DLDataTypeCode"},
    {"dtype_bits", "bits of one lane"},
    {"dtype_lanes", "lanes of one element"},
    {"device_type", "DLDeviceType"},
    {"device_id", "ordinal"},
    {"shape", "dims"},
    {"strides", "in elements"},
    {"data", "address of the first element, before byte_offset"},
    {"byte_offset", "added to data"},
    {"read_only", "whether the producer forbids writing"},
    {"layout", "'contiguous', 'inner' or 'strided'"},
    {"alignment", "of the address in bytes: 16, 8 or the element's size; 0 if it is not a multiple of that"},
    {nullptr, nullptr},
};
PyStructSequence_Desc kTensorInfo = {"weft._native.TensorInfo", "A tensor as a kernel sees it.", kFields, 12};

}  // namespace

int view_of(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view) {
  if (entry.kind == Kind::kTensor) return read_tensor(object, entry, scratch, view) == 0 ? 1 : -1;
  if (entry.kind == Kind::kPacked) {
    PyObject* array = packed_array(object);
    const TypeEntry* own = find_type(array);
    const int found = own == nullptr ? -1 : view_of(array, *own, scratch, view);
    return found <= 0 ? found : pack_view(object, scratch, view) == 0 ? 1 : -1;
  }
  const DLTensor* tensor = tensor_of_object(object, entry.kind);
  if (tensor == nullptr) return PyErr_Occurred() ? -1 : 0;
  view->tensor = *tensor;
  view->read_only = is_object_type(Py_TYPE(object)) && describe_tensor(object).read_only;
  return copy_dims(scratch, tensor->shape, tensor->strides, tensor->ndim, &view->tensor) == 0 ? 1 : -1;
}

int add_argument_keys(PyObject* module) {
  if (g_tensor_info == nullptr) g_tensor_info = PyStructSequence_NewType(&kTensorInfo);
  if (g_tensor_info == nullptr) return -1;
  if (PyModule_AddObjectRef(module, "TensorInfo", reinterpret_cast<PyObject*>(g_tensor_info)) != 0) return -1;
  return PyModule_AddFunctions(module, kMethods);
}

}  // namespace weft
