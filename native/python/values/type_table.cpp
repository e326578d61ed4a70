// SPDX-License-Identifier: Apache-2.0
//
// One open-addressed table from Python type to entry, under the GIL. Types are classified only here.
#include "python/values/type_table.h"

#include <cstdlib>
#include <initializer_list>
#include <new>

#include "module.h"
#include "python/call/function.h"
#include "python/objects/object.h"
#include "python/readers/numpy_scalar.h"
#include "python/readers/readers.h"
#include "python/tensors/packed.h"
#include "python/tensors/tensor_view.h"
#include "python/values/any.h"
#include "python/values/moved.h"

namespace weft {
namespace {

struct Table {
  TypeEntry** slots = nullptr;
  size_t capacity = 0;  // a power of two
  size_t count = 0;
};

Table g_table;
unsigned g_rungs = kRungAll;

size_t slot_of(const Table& table, PyTypeObject* type) {
  uintptr_t address = reinterpret_cast<uintptr_t>(type);
  size_t slot = ((address >> 4) ^ (address >> 13)) & (table.capacity - 1);
  while (table.slots[slot] != nullptr && table.slots[slot]->type != type) {
    slot = (slot + 1) & (table.capacity - 1);
  }
  return slot;
}

int grow() {
  Table larger;
  larger.capacity = g_table.capacity == 0 ? 256 : g_table.capacity * 2;
  larger.slots = static_cast<TypeEntry**>(std::calloc(larger.capacity, sizeof(TypeEntry*)));
  if (larger.slots == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t slot = 0; slot < g_table.capacity; ++slot) {
    TypeEntry* entry = g_table.slots[slot];
    if (entry != nullptr) larger.slots[slot_of(larger, entry->type)] = entry;
  }
  larger.count = g_table.count;
  std::free(g_table.slots);
  g_table = larger;
  return 0;
}

TypeEntry* entry_of(PyTypeObject* type) {
  if (2 * g_table.count >= g_table.capacity && grow() != 0) return nullptr;
  size_t slot = slot_of(g_table, type);
  if (g_table.slots[slot] != nullptr) return g_table.slots[slot];
  TypeEntry* entry = new (std::nothrow) TypeEntry();
  if (entry == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  Py_INCREF(type);
  entry->type = type;
  entry->settled = false;
  entry->serial = static_cast<uint32_t>(++g_table.count);
  g_table.slots[slot] = entry;
  return entry;
}

bool has_attribute(PyTypeObject* type, PyObject* name) {
  PyObject* value = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name);
  if (value == nullptr) {
    PyErr_Clear();
    return false;
  }
  bool present = value != Py_None;
  Py_DECREF(value);
  return present;
}

bool is_subtype_of_imported(PyTypeObject* type, const char* module, const char* attribute) {
  Reference base(imported_attribute(module, attribute));
  return base && PyType_Check(base.get()) &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.get())) != 0;
}

Kind builtin_kind(PyTypeObject* type) {
  if (type == Py_TYPE(Py_None)) return Kind::kNone;
  if (type == &PyBool_Type) return Kind::kBool;
  if (type == &PyLong_Type) return Kind::kInt;
  if (type == &PyFloat_Type) return Kind::kFloat;
  if (type == &PyUnicode_Type) return Kind::kStr;
  if (type == &PyBytes_Type) return Kind::kBytes;
  if (type == function_type()) return Kind::kFunction;
  if (is_object_type(type)) return Kind::kObject;
  if (type == tensor_view_type()) return Kind::kTensorView;
  if (type == moved_type()) return Kind::kMoved;
  if (PyType_IsSubtype(type, packed_type())) return Kind::kPacked;
  if (PyType_IsSubtype(type, any_type()) || type == any_view_type()) return Kind::kAny;
  if (type == &PyDict_Type) return Kind::kDict;
  return Kind::kUnknown;
}

// Classes of small values, looked up in imported modules only: an instance of any other module's class cannot
// have been passed.
Kind value_kind(PyTypeObject* type) {
  struct {
    const char* module;
    const char* name;
    Kind kind;
  } constexpr kRows[] = {
      {"weft.ffi.container", "Shape", Kind::kShape},
      {"tvm_ffi", "Shape", Kind::kShape},
      {"weft.types.dtype", "DType", Kind::kDataType},
      {"numpy", "dtype", Kind::kDataType},
      {"torch", "dtype", Kind::kDataType},
      {"tvm_ffi", "dtype", Kind::kDataType},
      {"tvm_ffi.core", "DataType", Kind::kDataType},
      {"torch", "device", Kind::kDevice},
      {"tvm_ffi.core", "Device", Kind::kDevice},
      {"ctypes", "c_void_p", Kind::kPointer},
  };
  for (const auto& row : kRows) {
    if (is_subtype_of_imported(type, row.module, row.name)) return row.kind;
  }
  return Kind::kUnknown;
}

Kind derived_kind(PyTypeObject* type) {
  if (PyType_IsSubtype(type, &PyTuple_Type)) return Kind::kTuple;
  if (PyType_IsSubtype(type, &PyList_Type)) return Kind::kList;
  if (PyType_IsSubtype(type, &PyLong_Type)) return Kind::kInt;
  if (PyType_IsSubtype(type, &PyFloat_Type)) return Kind::kFloat;
  if (PyType_IsSubtype(type, &PyUnicode_Type)) return Kind::kStr;
  if (PyType_IsSubtype(type, &PyBytes_Type)) return Kind::kBytes;
  if (PyType_IsSubtype(type, &PyDict_Type)) return Kind::kDict;
  return Kind::kUnknown;
}

bool is_real_number(PyTypeObject* type) {
  Reference real(imported_attribute("numbers", "Real"));
  int answer = real ? PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), real.get()) : 0;
  if (answer < 0) PyErr_Clear();
  return answer > 0;
}

// The package's Python half interprets the fields' annotations. A class that it cannot read is not a record;
// compiling for an instance reports why.
bool resolve_record(TypeEntry* entry) {
  Reference module(PyImport_ImportModule("weft.arguments.records"));
  Reference fields(module ? PyObject_CallMethod(module.get(), "passed_fields", "O", entry->type) : nullptr);
  PyObject *passed, *constants;
  if (!fields || fields.get() == Py_None ||
      !PyArg_ParseTuple(fields.get(), "O!O!", &PyTuple_Type, &passed, &PyTuple_Type, &constants)) {
    PyErr_Clear();
    return false;
  }
  entry->fields = Py_NewRef(passed);
  entry->constants = Py_NewRef(constants);
  entry->kind = Kind::kRecord;
  return true;
}

// Types that are neither tensors nor containers but stand for an FFI value.
void resolve_other(TypeEntry* entry) {
  PyTypeObject* type = entry->type;
  for (PyObject* method :
       {g_names.__tvm_ffi_opaque_ptr__, g_names.__dlpack_data_type__, g_names.__dlpack_device__,
        g_names.__tvm_ffi_int__, g_names.__tvm_ffi_float__, g_names.__tvm_ffi_value__}) {
    if (!has_attribute(type, method)) continue;
    entry->kind = method == g_names.__tvm_ffi_opaque_ptr__ ? Kind::kPointer : Kind::kProtocol;
    entry->protocol = method;
    return;
  }
  if (type->tp_as_number != nullptr && type->tp_as_number->nb_index != nullptr) {
    entry->kind = Kind::kIndex;
  } else if (is_real_number(type)) {
    entry->kind = Kind::kReal;
  } else if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
    entry->kind = Kind::kException;
  } else if (type->tp_call != nullptr) {
    entry->kind = Kind::kCallable;
  }
}

// Classes of arrays that never change: their libraries share memory between arrays, and export it as
// writable.
bool is_immutable(PyTypeObject* type) {
  Reference array(imported_attribute("jax", "Array"));  // an abstract class
  int answer = array ? PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), array.get()) : 0;
  if (answer < 0) PyErr_Clear();
  return answer > 0;
}

// The general rungs, for types that no library-specific reader serves.
void choose_general_reader(TypeEntry* entry) {
  PyTypeObject* type = entry->type;
  entry->exchange = find_exchange_api(type);
  Family family = Family::kNone;
  if ((g_rungs & kRungExchange) != 0 && entry->exchange != nullptr) {
    entry->read = read_exchange;
    family = Family::kExchange;
  } else if ((g_rungs & kRungDlpack) != 0 && has_attribute(type, g_names.__dlpack__)) {
    entry->read = read_dlpack;
    family = Family::kDlpack;
    entry->names_stream = has_attribute(type, g_names.__cuda_array_interface__);
  } else if ((g_rungs & kRungCudaArray) != 0 && has_attribute(type, g_names.__cuda_array_interface__)) {
    entry->read = read_cuda_array;
    family = Family::kCudaArray;
  } else if ((g_rungs & kRungBuffer) != 0 && type->tp_as_buffer != nullptr &&
             type->tp_as_buffer->bf_getbuffer != nullptr) {
    entry->read = read_buffer;
    family = Family::kBuffer;
  }
  if (entry->family == Family::kNone) entry->family = family;
}

void resolve_numpy(TypeEntry* entry) {
  entry->family = Family::kNumpy;
  choose_general_reader(entry);
  if ((g_rungs & kRungNumpyStruct) != 0 && prepare_numpy()) entry->read = read_numpy;
  bool exact = !is_subtype_of_imported(entry->type, "numpy.ma", "MaskedArray");
  entry->check = exact ? nullptr : check_numpy_subclass;
  entry->kind = entry->read != nullptr ? Kind::kTensor : Kind::kUnknown;
}

// `settled` stays false if torch could not be probed now (inside a mode that intercepts its factories): the
// next call tries again.
void resolve_torch(TypeEntry* entry) {
  entry->family = Family::kTorch;
  choose_general_reader(entry);
  if ((g_rungs & kRungTorchShim) != 0 && prepare_torch()) {
    entry->read = read_torch;
    entry->check = has_own_torch_dispatch(entry->type) ? check_torch_wrapper : nullptr;
  } else {
    entry->check = check_torch;
    entry->settled = !torch_probe_pending();
  }
  entry->kind = entry->read != nullptr ? Kind::kTensor : Kind::kUnknown;
}

void resolve(TypeEntry* entry) {
  PyTypeObject* type = entry->type;
  entry->settled = true;
  entry->family = Family::kNone;
  entry->immutable = false;
  entry->names_stream = false;
  entry->check = nullptr;
  entry->read = nullptr;
  entry->kind = builtin_kind(type);
  if (entry->kind != Kind::kUnknown) return;
  if (is_subtype_of_imported(type, "numpy", "ndarray")) return resolve_numpy(entry);
  if (is_subtype_of_imported(type, "torch", "Tensor")) return resolve_torch(entry);
  if (is_subtype_of_imported(type, "numpy", "generic")) {
    resolve_numpy_scalar(entry);
    if (is_subtype_of_imported(type, "numpy", "complexfloating")) {  // the pair of its parts
      entry->kind = Kind::kUnknown;
      resolve_record(entry);
    }
    if (entry->kind == Kind::kUnknown) entry->kind = derived_kind(type);  // numpy.str_ is a str
    return;
  }
  entry->kind = value_kind(type);
  if (entry->kind == Kind::kUnknown) entry->kind = derived_kind(type);
  if (entry->kind == Kind::kTuple && type != &PyTuple_Type && has_attribute(type, g_names._fields)) {
    resolve_record(entry);
  }
  if (entry->kind != Kind::kUnknown) return;
  if (has_attribute(type, g_names.__chandle__)) {
    entry->kind = Kind::kForeignObject;
    return;
  }
  if (has_attribute(type, g_names.__tvm_ffi_object__)) {
    entry->kind = Kind::kForeignHolder;
    return;
  }
  choose_general_reader(entry);
  entry->immutable = entry->read != nullptr && is_immutable(type);
  if (entry->immutable) entry->read = read_immutable;
  if (entry->read != nullptr) {
    entry->kind = Kind::kTensor;
  } else if (has_attribute(type, g_names.__cuda_stream__) || has_attribute(type, g_names.cuda_stream) ||
             is_subtype_of_imported(type, "cupy.cuda", "Stream")) {
    entry->kind = Kind::kStream;
  } else {
    const bool may_be_record =
        has_attribute(type, g_names.__dataclass_params__) || PyType_IsSubtype(type, &PyComplex_Type) != 0;
    if (!may_be_record || !resolve_record(entry)) resolve_other(entry);
  }
}

// `module.from_dlpack`, or `module.dlpack.from_dlpack`, as in JAX. nullptr without an exception.
PyObject* import_function(PyObject* module) {
  PyObject* function = PyObject_GetAttr(module, g_names.from_dlpack);
  if (function != nullptr) return function;
  PyErr_Clear();
  Reference inner(PyObject_GetAttrString(module, "dlpack"));
  function = inner ? PyObject_GetAttr(inner.get(), g_names.from_dlpack) : nullptr;
  if (function == nullptr) PyErr_Clear();
  return function;
}

// The top-level package of a class, where array libraries have from_dlpack. Borrowed.
PyObject* package_of(PyTypeObject* type) {
  Reference name(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  Reference dot(PyUnicode_FromString("."));
  bool is_text = name && dot && PyUnicode_Check(name.get());
  Reference parts(is_text ? PyUnicode_Partition(name.get(), dot.get()) : nullptr);
  const char* root = parts ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(parts.get(), 0)) : nullptr;
  if (root == nullptr) PyErr_Clear();
  return root == nullptr ? nullptr : imported_module(root);
}

// The namespace of an array's library, which need not be its class's package.
PyObject* importer_of_array(PyObject* array) {
  Reference space(PyObject_CallMethod(array, "__array_namespace__", nullptr));
  PyObject* function = space ? import_function(space.get()) : nullptr;
  if (function == nullptr) PyErr_Clear();
  return function;
}

// Examining a type runs Python code, during which other threads may use the entry: it changes at once, at the
// end.
void settle(TypeEntry* entry) {
  TypeEntry fresh = *entry;
  resolve(&fresh);
  *entry = fresh;
}

PyObject* set_reader_rungs(PyObject*, PyObject* mask) {
  unsigned long value = PyLong_AsUnsignedLong(mask);
  if (value == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  if (value > kRungAll) {
    PyErr_Format(PyExc_ValueError, "reader rungs are a mask from 0 to %d, received %lu", kRungAll, value);
    return nullptr;
  }
  g_rungs = static_cast<unsigned>(value);
  for (size_t slot = 0; slot < g_table.capacity; ++slot) {
    TypeEntry* entry = g_table.slots[slot];
    if (entry != nullptr && entry->kind != Kind::kAdapter) settle(entry);
  }
  Py_RETURN_NONE;
}

PyObject* get_reader_rungs(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(g_rungs); }

PyObject* register_adapter_method(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyType_Check(arguments[0]) || !PyCallable_Check(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "register_adapter takes a type and a function of one value");
    return nullptr;
  }
  if (register_adapter(reinterpret_cast<PyTypeObject*>(arguments[0]), arguments[1]) != 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* find_adapter(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) {
    PyErr_Format(PyExc_TypeError, "find_adapter takes a type, received %s", Py_TYPE(type)->tp_name);
    return nullptr;
  }
  TypeEntry* entry = entry_of(reinterpret_cast<PyTypeObject*>(type));
  if (entry == nullptr) return nullptr;
  return Py_NewRef(entry->kind == Kind::kAdapter ? entry->adapter : Py_None);
}

// Whether compiled functions take instances of a type only through an adapter.
bool is_adaptable(Kind kind) {
  switch (kind) {
    case Kind::kUnknown:
    case Kind::kAdapter:
    case Kind::kRecord:
    case Kind::kIndex:
    case Kind::kReal:
    case Kind::kProtocol:
    case Kind::kException:
    case Kind::kCallable:
      return true;
    default:
      return false;
  }
}

PyMethodDef kMethods[] = {
    {"set_reader_rungs", set_reader_rungs, METH_O,
     "set_reader_rungs(mask: int) -> None\n--\n\n"
     "Restricts how tensors are read: 1 torch's shim, 2 NumPy's structure, 4 the DLPack\n"
     "exchange API, 8 __dlpack__, 16 __cuda_array_interface__, 32 buffers. For tests."},
    {"reader_rungs", get_reader_rungs, METH_NOARGS,
     "reader_rungs() -> int\n--\n\nThe mask of set_reader_rungs; 63 allows every way."},
    {"register_adapter", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(register_adapter_method)),
     METH_FASTCALL,
     "register_adapter(type: type, adapter) -> None\n--\n\n"
     "Passes instances of exactly `type` as adapter(instance), for example a tuple of their fields.\n"
     "ValueError for a type whose instances are arguments already."},
    {"find_adapter", find_adapter, METH_O,
     "find_adapter(type: type) -> adapter | None\n--\n\nThe adapter registered for a type."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

const TypeEntry* entry_of_type(PyTypeObject* type) {
  TypeEntry* entry = entry_of(type);
  if (WEFT_UNLIKELY(entry != nullptr && !entry->settled)) settle(entry);
  return entry;
}

const TypeEntry* find_type(PyObject* object) {
  TypeEntry* entry = entry_of(Py_TYPE(object));
  if (WEFT_LIKELY(entry == nullptr || entry->settled)) return entry;
  settle(entry);
  bool is_array = entry->kind == Kind::kTensor && entry->family != Family::kNumpy &&
                  entry->family != Family::kTorch && entry->family != Family::kBuffer;
  if (is_array && entry->importer == nullptr) entry->importer = importer_of_array(object);
  return entry;
}

bool find_importer(const TypeEntry* entry) {
  if (entry->importer != nullptr) return true;
  PyObject* package = package_of(entry->type);
  PyObject* function = package == nullptr ? nullptr : import_function(package);
  if (function == nullptr) return false;
  const_cast<TypeEntry*>(entry)->importer = function;  // the table's entries are never freed
  return true;
}

int register_adapter(PyTypeObject* type, PyObject* adapter) {
  TypeEntry* entry = entry_of(type);
  if (entry == nullptr) return -1;
  if (!entry->settled) settle(entry);
  if (!is_adaptable(entry->kind)) {
    return refuse(PyExc_ValueError, "instances of %s are arguments already", type->tp_name);
  }
  Py_INCREF(adapter);
  Py_XSETREF(entry->adapter, adapter);
  entry->kind = Kind::kAdapter;
  entry->settled = true;
  return 0;
}

unsigned reader_rungs() { return g_rungs; }

int add_type_table(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
