// SPDX-License-Identifier: Apache-2.0
//
// Explicit ownership: `take` moves a value out and leaves the Any empty, `copy` adds a reference. A view
// knows its owner, and is invalid once that is empty or the loan has ended.
#include "python/values/any.h"

#include <structmember.h>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/errors/ffi_error.h"
#include "python/objects/object.h"
#include "python/results/result.h"
#include "python/type_object.h"
#include "python/values/encode/encode.h"

namespace weft {
namespace {

struct Any {
  PyObject base;
  TVMFFIAny value;  // owned while `full`
  bool full;
  PyObject* weak_references;
};

struct AnyView {
  PyObject base;
  const TVMFFIAny* lent;  // a callback's argument, or nullptr
  PyObject* owner;        // the viewed Any, or nullptr
  PyObject* weak_references;
};

Type<Any> g_any;
Type<AnyView> g_view;

Any* as_any(PyObject* self) { return reinterpret_cast<Any*>(self); }
AnyView* as_view(PyObject* self) { return reinterpret_cast<AnyView*>(self); }

void release_any(PyObject* self) {
  Any* any = as_any(self);
  // Foreign code may have written a result into it, so the value itself decides.
  if (any->full && any->value.type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(any->value.v_obj);
}

void release_view(PyObject* self) { Py_XDECREF(as_view(self)->owner); }

PyObject* new_any(PyTypeObject* type) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) as_any(self)->full = true;  // None, which is all zeros
  return self;
}

PyObject* create_any(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"value", nullptr};
  PyObject* value = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:Any", const_cast<char**>(kNames), &value)) {
    return nullptr;
  }
  if (require_library() != 0) return nullptr;
  Reference self(new_any(type));
  return self && encode_owned(value, Writer::kNobody, &as_any(self.get())->value) == 0 ? self.release()
                                                                                       : nullptr;
}

PyObject* any_from_address(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"address", "borrowed", nullptr};
  PyObject* address;
  int borrowed;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O$p:from_address", const_cast<char**>(kNames),
                                   &address, &borrowed)) {
    return nullptr;
  }
  auto* source = static_cast<TVMFFIAny*>(PyLong_AsVoidPtr(address));
  if (source == nullptr && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the address is null");
  if (PyErr_Occurred() || require_library() != 0) return nullptr;
  Reference self(new_any(g_any.get()));
  if (!self) return nullptr;
  TVMFFIAny* value = &as_any(self.get())->value;
  if (borrowed || source->type_index < kTVMFFIStaticObjectBegin) {
    if (own_value(*source, value) != 0) return nullptr;
    if (!borrowed) *source = {};
    return self.release();
  }
  *value = *source;
  *source = {};
  return self.release();
}

PyObject* type_index(PyObject* self, void*) {
  const TVMFFIAny* value = value_of_any(self);
  return value == nullptr ? nullptr : PyLong_FromLong(value->type_index);
}

PyObject* type_key(PyObject* self, void*) {
  const TVMFFIAny* value = value_of_any(self);
  return value == nullptr ? nullptr : type_key_of_index(value->type_index);
}

PyObject* is_object(PyObject* self, void*) {
  const TVMFFIAny* value = value_of_any(self);
  return value == nullptr ? nullptr : PyBool_FromLong(value->type_index >= kTVMFFIStaticObjectBegin);
}

PyObject* address(PyObject* self, void*) {
  const TVMFFIAny* value = value_of_any(self);
  return value == nullptr ? nullptr : PyLong_FromVoidPtr(const_cast<TVMFFIAny*>(value));
}

PyObject* get_is_moved(PyObject* self, void*) { return PyBool_FromLong(!as_any(self)->full); }

int parse_policy(PyObject* arguments, PyObject* keywords, const char* format, ResultPolicy* policy) {
  static const char* kNames[] = {"tensor_type", nullptr};
  PyObject* tensor_type = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, format, const_cast<char**>(kNames), &tensor_type)) {
    return -1;
  }
  return set_tensor_type(tensor_type, policy);
}

PyObject* take(PyObject* self, PyObject* arguments, PyObject* keywords) {
  ResultPolicy policy;
  if (value_of_any(self) == nullptr || parse_policy(arguments, keywords, "|O:take", &policy) != 0) {
    return nullptr;
  }
  TVMFFIAny value = as_any(self)->value;
  as_any(self)->value = {};
  as_any(self)->full = false;
  return result_to_python(value, policy);
}

PyObject* copy(PyObject* self, PyObject* arguments, PyObject* keywords) {
  ResultPolicy policy;
  const TVMFFIAny* value = value_of_any(self);
  if (value == nullptr || parse_policy(arguments, keywords, "|O:copy", &policy) != 0) return nullptr;
  return view_to_python(*value, policy);
}

PyObject* to_owned(PyObject* self, PyObject*) {
  const TVMFFIAny* value = value_of_any(self);
  Reference any(value == nullptr ? nullptr : new_any(g_any.get()));
  if (!any) return nullptr;
  return own_value(*value, &as_any(any.get())->value) == 0 ? any.release() : nullptr;
}

// The value for the tvm_ffi package: objects in its classes, an address as a pointer.
PyObject* foreign_value(PyObject* self, PyObject*) {
  const TVMFFIAny* value = value_of_any(self);
  if (value == nullptr) return nullptr;
  ResultPolicy policy;
  policy.objects = ObjectMode::kTvmFfi;
  PyObject* made = view_to_python(*value, policy);
  if (made == nullptr || value->type_index != kTVMFFIOpaquePtr) return made;
  Reference address(made);
  Reference module(PyImport_ImportModule("ctypes"));
  return module ? PyObject_CallMethod(module.get(), "c_void_p", "O", made) : nullptr;
}

PyObject* view_of_any(PyObject* self, PyObject*) {
  if (value_of_any(self) == nullptr) return nullptr;
  PyObject* view = g_view.make();
  if (view != nullptr) as_view(view)->owner = Py_NewRef(self);
  return view;
}

PyObject* repr(PyObject* self) {
  bool is_view = Py_TYPE(self) == g_view.get();
  const char* name = is_view ? "AnyView" : "Any";
  const TVMFFIAny* value = value_of_any(self);
  if (value == nullptr) {
    PyErr_Clear();
    return PyUnicode_FromFormat("<weft.ffi.%s, %s>", name, is_view ? "ended" : "moved from");
  }
  Reference key(type_key_of_index(value->type_index));
  return key ? PyUnicode_FromFormat("<weft.ffi.%s of %U>", name, key.get()) : nullptr;
}

PyObject* refuse_pickle(PyObject* self, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%s holds a reference of this process and cannot be pickled or copied",
               Py_TYPE(self)->tp_name);
  return nullptr;
}

template <typename Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef kAnyMethods[] = {
    {"from_address", as_method(any_from_address), METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "from_address(address, *, borrowed) -> Any\n--\n\n"
     "The value of the TVMFFIAny at an address: `borrowed=True` adds a reference, `borrowed=False` moves\n"
     "the value out and leaves None there."},
    {"take", as_method(take), METH_VARARGS | METH_KEYWORDS,
     "take(tensor_type=None)\n--\n\n"
     "Moves the value out as a Python object; from then on the Any is empty and raises ValueError."},
    {"copy", as_method(copy), METH_VARARGS | METH_KEYWORDS,
     "copy(tensor_type=None)\n--\n\nThe value as a Python object with its own reference."},
    {"view", view_of_any, METH_NOARGS,
     "view() -> AnyView\n--\n\nBorrows the value; the view ends when the value is taken."},
    {"__tvm_ffi_value__", foreign_value, METH_NOARGS, "The same value in the tvm_ffi package."},
    {"__reduce__", refuse_pickle, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef kViewMethods[] = {
    {"copy", as_method(copy), METH_VARARGS | METH_KEYWORDS,
     "copy(tensor_type=None)\n--\n\nThe value as a Python object with its own reference."},
    {"to_any", to_owned, METH_NOARGS, "to_any() -> Any\n--\n\nThe value, owned: it outlives the view."},
    {"__tvm_ffi_value__", foreign_value, METH_NOARGS, "The same value in the tvm_ffi package."},
    {"__reduce__", refuse_pickle, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kAnyProperties[] = {
    {"type_index", type_index, nullptr, "The FFI type index.", nullptr},
    {"type_key", type_key, nullptr, "The FFI type's registered name.", nullptr},
    {"is_object", is_object, nullptr, "Whether it holds a counted reference.", nullptr},
    {"address", address, nullptr, "The TVMFFIAny's address, valid until it is taken or freed.", nullptr},
    {"is_moved", get_is_moved, nullptr, "Whether the value was taken.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyGetSetDef kViewProperties[] = {
    {"type_index", type_index, nullptr, "The FFI type index.", nullptr},
    {"type_key", type_key, nullptr, "The FFI type's registered name.", nullptr},
    {"is_object", is_object, nullptr, "Whether it is a counted reference.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef kAnyMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Any, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyMemberDef kViewMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(AnyView, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

const char kAnyDoc[] =
    "Any(value=None)\n--\n\n"
    "An owning FFI value. Made from a Python value, or filled by foreign code at `address`.";
const char kViewDoc[] =
    "A borrowed FFI value: from an Any, or from the caller of a callback until it returns.";

}  // namespace

PyTypeObject* any_type() { return g_any.get(); }
PyTypeObject* any_view_type() { return g_view.get(); }

const TVMFFIAny* value_of_any(PyObject* object) {
  bool is_view = Py_TYPE(object) == g_view.get();
  if (is_view && as_view(object)->lent != nullptr) return as_view(object)->lent;
  PyObject* owner = is_view ? as_view(object)->owner : object;
  if (owner != nullptr && as_any(owner)->full) return &as_any(owner)->value;
  PyErr_SetString(PyExc_ValueError, !is_view ? "this Any has been moved from"
                                    : owner != nullptr
                                        ? "the Any that this view borrowed from has been moved from"
                                        : "this AnyView was lent to a callback that has returned");
  return nullptr;
}

PyObject* lend_any_view(const TVMFFIAny* value) {
  PyObject* view = g_view.make();
  if (view != nullptr) as_view(view)->lent = value;
  return view;
}

void end_any_view(PyObject* view) { as_view(view)->lent = nullptr; }

int add_any(PyObject* module) {
  if (g_any.add(module, "weft._native.OwnedAny",
                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                {{Py_tp_doc, kAnyDoc},
                 {Py_tp_new, create_any},
                 {Py_tp_dealloc, Type<Any>::dealloc<release_any>},
                 {Py_tp_repr, repr},
                 {Py_tp_methods, kAnyMethods},
                 {Py_tp_getset, kAnyProperties},
                 {Py_tp_members, kAnyMembers}}) != 0)
    return -1;
  return g_view.add(module, "weft._native.AnyView",
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    {{Py_tp_doc, kViewDoc},
                     {Py_tp_dealloc, Type<AnyView>::dealloc<release_view>},
                     {Py_tp_repr, repr},
                     {Py_tp_methods, kViewMethods},
                     {Py_tp_getset, kViewProperties},
                     {Py_tp_members, kViewMembers}});
}

}  // namespace weft
