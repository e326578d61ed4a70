// SPDX-License-Identifier: Apache-2.0
//
// libtvm_ffi's reflection of object types: fields and methods by name, read and written in place. The tables
// are never freed, so rows are addressed by type index and number.
#include <cstring>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/errors/ffi_error.h"
#include "python/objects/object.h"
#include "python/results/result.h"
#include "python/values/encode/encode.h"

namespace weft {
namespace {

PyObject* text_of(const TVMFFIByteArray& bytes) {
  return PyUnicode_DecodeUTF8(bytes.data == nullptr ? "" : bytes.data, static_cast<Py_ssize_t>(bytes.size),
                              "replace");
}

// The type of a registered index; nullptr with an exception.
const TVMFFITypeInfo* require_type(int type_index) {
  if (require_library() != 0) return nullptr;
  const TVMFFITypeInfo* info = find_type_info(type_index);
  if (info == nullptr) PyErr_Format(PyExc_ValueError, "no FFI type has the index %d", type_index);
  return info;
}

PyObject* type_key_to_index(PyObject*, PyObject* key) {
  Py_ssize_t size;
  const char* data = PyUnicode_AsUTF8AndSize(key, &size);
  if (data == nullptr || require_library() != 0) return nullptr;
  TVMFFIByteArray bytes{data, static_cast<size_t>(size)};
  // -2, as the parent, asks without registering anything, and is the answer for an unregistered key.
  int32_t index = ffi().type_get_or_alloc_index(&bytes, -1, 0, 0, 0, -2);
  if (index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(index);
}

PyObject* fields_of(const TVMFFITypeInfo& info) {
  Reference rows(PyTuple_New(info.num_fields));
  for (int32_t number = 0; rows && number < info.num_fields; ++number) {
    const TVMFFIFieldInfo& field = info.fields[number];
    PyObject* row = Py_BuildValue("(NNNLLL)", text_of(field.name), text_of(field.doc),
                                  text_of(field.metadata), static_cast<long long>(field.flags),
                                  static_cast<long long>(field.offset), static_cast<long long>(field.size));
    if (row == nullptr) return nullptr;
    PyTuple_SET_ITEM(rows.get(), number, row);
  }
  return rows.release();
}

PyObject* methods_of(const TVMFFITypeInfo& info) {
  Reference rows(PyTuple_New(info.num_methods));
  for (int32_t number = 0; rows && number < info.num_methods; ++number) {
    const TVMFFIMethodInfo& method = info.methods[number];
    PyObject* row = Py_BuildValue("(NNNL)", text_of(method.name), text_of(method.doc),
                                  text_of(method.metadata), static_cast<long long>(method.flags));
    if (row == nullptr) return nullptr;
    PyTuple_SET_ITEM(rows.get(), number, row);
  }
  return rows.release();
}

PyObject* type_info(PyObject*, PyObject* argument) {
  int overflow = 0;
  const long index = PyLong_AsLongAndOverflow(argument, &overflow);
  if (index == -1 && PyErr_Occurred()) return nullptr;
  if (overflow != 0 || index < 0 || index > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "no FFI type has the index %R", argument);
    return nullptr;
  }
  const TVMFFITypeInfo* info = require_type(static_cast<int>(index));
  if (info == nullptr) return nullptr;
  Reference ancestors(PyTuple_New(info->type_depth));
  for (int32_t depth = 0; ancestors && depth < info->type_depth; ++depth) {
    PyObject* ancestor = PyLong_FromLong(info->type_ancestors[depth]->type_index);
    if (ancestor == nullptr) return nullptr;
    PyTuple_SET_ITEM(ancestors.get(), depth, ancestor);
  }
  if (!ancestors) return nullptr;
  int32_t size = info->metadata == nullptr ? 0 : info->metadata->total_size;
  TVMFFIByteArray nothing{"", 0};
  return Py_BuildValue("(iNNNNNi)", static_cast<int>(info->type_index), text_of(info->type_key),
                       text_of(info->metadata == nullptr ? nothing : info->metadata->doc),
                       ancestors.release(), fields_of(*info), methods_of(*info), static_cast<int>(size));
}

// The row of a field, checked against the object. nullptr with an exception.
const TVMFFIFieldInfo* field_of(PyObject* object, int type_index, int number, TVMFFIObject** handle) {
  if (!is_object_type(Py_TYPE(object))) {
    PyErr_Format(PyExc_TypeError, "expected an FFI object, received %s", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  *handle = handle_of_object(object);
  if (*handle == nullptr) return nullptr;
  const TVMFFITypeInfo* own = require_type((*handle)->type_index);
  if (own == nullptr) return nullptr;
  const TVMFFITypeInfo* owner = own;
  for (int32_t depth = own->type_depth; owner->type_index != type_index && depth-- > 0;) {
    owner = own->type_ancestors[depth];
  }
  if (owner->type_index == type_index && number >= 0 && number < owner->num_fields) {
    return &owner->fields[number];
  }
  PyErr_Format(PyExc_TypeError, "%R has no field %d of type index %d", object, number, type_index);
  return nullptr;
}

PyObject* get_field(PyObject*, PyObject* arguments) {
  PyObject* object;
  int type_index, number;
  TVMFFIObject* handle;
  if (!PyArg_ParseTuple(arguments, "Oii:get_field", &object, &type_index, &number)) return nullptr;
  const TVMFFIFieldInfo* field = field_of(object, type_index, number, &handle);
  if (field == nullptr) return nullptr;
  TVMFFIAny value = {};
  int code = field->getter(reinterpret_cast<char*>(handle) + field->offset, &value);
  if (code != 0) return raise_ffi_error(code);
  return result_to_python(value, ResultPolicy());
}

// A setter is a C function, or an FFI function of the field's address and the value.
int call_setter(const TVMFFIFieldInfo& field, void* address, const TVMFFIAny& value) {
  if ((field.flags & kTVMFFIFieldFlagBitSetterIsFunctionObj) == 0) {
    return reinterpret_cast<TVMFFIFieldSetter>(field.setter)(address, &value);
  }
  TVMFFIAny values[2] = {{}, value};
  values[0].type_index = kTVMFFIOpaquePtr;
  values[0].v_ptr = address;
  TVMFFIAny nothing = {};
  return ffi().function_call(field.setter, values, 2, &nothing);
}

PyObject* set_field(PyObject*, PyObject* arguments) {
  PyObject *object, *given;
  int type_index, number;
  TVMFFIObject* handle;
  if (!PyArg_ParseTuple(arguments, "OiiO:set_field", &object, &type_index, &number, &given)) return nullptr;
  const TVMFFIFieldInfo* field = field_of(object, type_index, number, &handle);
  if (field == nullptr) return nullptr;
  if ((field->flags & kTVMFFIFieldFlagBitMaskWritable) == 0 || field->setter == nullptr) {
    Reference name(text_of(field->name));
    if (name) PyErr_Format(PyExc_AttributeError, "field '%U' is read-only", name.get());
    return nullptr;
  }
  TVMFFIAny value;
  if (encode_owned(given, Writer::kHolders, &value) != 0) return nullptr;
  int code = call_setter(*field, reinterpret_cast<char*>(handle) + field->offset, value);
  if (value.type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(value.v_obj);
  if (code != 0) return raise_ffi_error(code);
  Py_RETURN_NONE;
}

// A constructor stores its arguments in a shared object.
PyObject* to_constructor(PyObject* method) {
  if (method != nullptr && Py_TYPE(method) == function_type()) {
    reinterpret_cast<Function*>(method)->keeps = true;
    reinterpret_cast<Function*>(method)->writer = Writer::kHolders;
  }
  return method;
}

bool is_constructor(const TVMFFIByteArray& name) {
  constexpr char kName[] = "__ffi_init__";
  return name.size == sizeof(kName) - 1 && std::memcmp(name.data, kName, name.size) == 0;
}

PyObject* get_method(PyObject*, PyObject* arguments) {
  int type_index, number;
  if (!PyArg_ParseTuple(arguments, "ii:get_method", &type_index, &number)) return nullptr;
  const TVMFFITypeInfo* info = require_type(type_index);
  if (info == nullptr) return nullptr;
  if (number < 0 || number >= info->num_methods) {
    PyErr_Format(PyExc_IndexError, "type index %d has %d methods, received number %d", type_index,
                 static_cast<int>(info->num_methods), number);
    return nullptr;
  }
  const TVMFFIMethodInfo& method = info->methods[number];
  PyObject* function = view_to_python(method.method, ResultPolicy());
  return is_constructor(method.name) ? to_constructor(function) : function;
}

PyObject* type_attribute(PyObject*, PyObject* arguments) {
  int type_index;
  const char* name;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(arguments, "is#:type_attribute", &type_index, &name, &size)) return nullptr;
  if (require_library() != 0) return nullptr;
  TVMFFIByteArray bytes{name, static_cast<size_t>(size)};
  const TVMFFITypeAttrColumn* column = ffi().get_type_attr_column(&bytes);
  if (column == nullptr) Py_RETURN_NONE;
  int64_t row = static_cast<int64_t>(type_index) - column->begin_index;
  if (row < 0 || row >= column->size) Py_RETURN_NONE;
  PyObject* attribute = view_to_python(column->data[row], ResultPolicy());
  return is_constructor(bytes) ? to_constructor(attribute) : attribute;
}

PyMethodDef kMethods[] = {
    {"type_key_to_index", type_key_to_index, METH_O,
     "type_key_to_index(key: str) -> int | None\n--\n\nThe index of a registered type."},
    {"type_info", type_info, METH_O,
     "type_info(type_index: int) -> tuple\n--\n\n"
     "(index, key, doc, indices of ancestors, fields, methods, bytes). A field is (name, doc, metadata, "
     "flags,\n"
     "offset, bytes, static type index), a method (name, doc, metadata, flags)."},
    {"get_field", get_field, METH_VARARGS,
     "get_field(object, type_index, number)\n--\n\nThe value of a field, with its own reference."},
    {"set_field", set_field, METH_VARARGS,
     "set_field(object, type_index, number, value)\n--\n\nAttributeError if the field is read-only."},
    {"get_method", get_method, METH_VARARGS,
     "get_method(type_index, number) -> Function\n--\n\nA method; it takes the object first unless it is "
     "static."},
    {"type_attribute", type_attribute, METH_VARARGS,
     "type_attribute(type_index, name)\n--\n\nAn attribute registered for a type, or None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_reflection(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
