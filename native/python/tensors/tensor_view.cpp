// SPDX-License-Identifier: Apache-2.0
//
// Exports of a lent view are counted, so that one that outlives the loan is noticed when the loan ends, not
// when it reads freed memory.
#include "python/tensors/tensor_view.h"

#include <structmember.h>

#include <atomic>
#include <new>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/callbacks/deferred.h"
#include "python/readers/readers.h"
#include "python/tensors/dlpack_export.h"
#include "python/tensors/host_array.h"
#include "python/tensors/tensor_cell.h"
#include "python/type_object.h"

namespace weft {
namespace {

struct View {
  PyObject base;
  const DLTensor* tensor;     // nullptr once the loan has ended
  TVMFFIObject* owner;        // the tensor object that holds the memory; nullptr if it is lent
  std::atomic<int>* exports;  // of a lent view; shared with the exports
  PyObject* weak_references;
};

Type<View> g_type;

View* as_view(PyObject* self) { return reinterpret_cast<View*>(self); }

// The counter lives as long as the view or an export: one count stands for the view itself.
void drop_count(void* counter) {
  auto* exports = static_cast<std::atomic<int>*>(counter);
  if (exports->fetch_sub(1, std::memory_order_acq_rel) == 1) delete exports;
}

void release(PyObject* self) {
  View* view = as_view(self);
  if (view->owner != nullptr) ffi().object_dec_ref(view->owner);
  if (view->exports != nullptr) drop_count(view->exports);
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"array", nullptr};
  PyObject* array;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:TensorView", const_cast<char**>(kNames), &array)) {
    return nullptr;
  }
  if (require_library() != 0) return nullptr;
  const TypeEntry* entry = find_type(array);
  if (entry == nullptr) return nullptr;
  if (entry->kind != Kind::kTensor) {
    PyErr_Format(PyExc_TypeError, "TensorView: expected an array, received %s", Py_TYPE(array)->tp_name);
    return nullptr;
  }
  Scratch scratch;
  TensorView read;
  if (read_tensor(array, *entry, scratch, &read) != 0) return nullptr;
  Reference self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  TVMFFIObject* owner = make_tensor(array, *entry, read);
  if (owner == nullptr) return nullptr;
  as_view(self.get())->owner = owner;
  as_view(self.get())->tensor = tensor_of(owner);
  return self.release();
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  const DLTensor* tensor = describe_tensor_view(self).tensor;
  if (tensor == nullptr) return nullptr;
  return Py_BuildValue("(ii)", static_cast<int>(tensor->device.device_type), tensor->device.device_id);
}

PyObject* dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  TensorDescription described = describe_tensor_view(self);
  ExportOptions options;
  if (described.tensor == nullptr ||
      parse_export_options(arguments, keywords, *described.tensor, &options) != 0) {
    return nullptr;
  }
  const TVMFFIObject* owner = as_view(self)->owner;
  uint64_t flags = owner == nullptr ? 0 : export_flags(owner, options.versioned);
  return export_capsule(*described.tensor, flags, options, keep_tensor_view(self));
}

PyObject* get_is_valid(PyObject* self, PyObject*) {
  return PyBool_FromLong(as_view(self)->tensor != nullptr);
}

PyObject* repr(PyObject* self) {
  if (as_view(self)->tensor == nullptr) return PyUnicode_FromString("<weft.ffi.TensorView, ended>");
  Reference shape(PyObject_GetAttrString(self, "shape"));
  Reference dtype(shape ? PyObject_GetAttrString(self, "dtype") : nullptr);
  Reference device(dtype ? PyObject_GetAttrString(self, "device") : nullptr);
  if (!device) return nullptr;
  return PyUnicode_FromFormat("<weft.ffi.TensorView of %S, shape %S, on %S>", dtype.get(), shape.get(),
                              device.get());
}

PyMethodDef kMethods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)),
     METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule over the view's memory. Arrays made from a lent view must be gone when the callback\n"
     "returns."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_numpy)),
     METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None)\n--\n\nA NumPy array of the host's memory, by NumPy's rules."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "(DLPack device type, device id) of the tensor."},
    {"is_valid", get_is_valid, METH_NOARGS,
     "is_valid() -> bool\n--\n\nWhether the view is valid: a lent one ends with its callback."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef kMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(View, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

const char kDoc[] =
    "TensorView(array)\n--\n\n"
    "An array as a DLTensor*, for functions that take no tensor objects. It holds the array's memory.";

}  // namespace

PyTypeObject* tensor_view_type() { return g_type.get(); }

TensorDescription describe_tensor_view(PyObject* self) {
  View* view = as_view(self);
  if (view->tensor == nullptr) {
    PyErr_SetString(PyExc_ValueError, "this TensorView was lent to a callback that has returned");
    return {nullptr, false};
  }
  return {view->tensor, view->owner != nullptr && is_read_only_cell(view->owner)};
}

Keeper keep_tensor_view(PyObject* self) {
  View* view = as_view(self);
  if (view->owner != nullptr) return keep_handle(view->owner);
  view->exports->fetch_add(1, std::memory_order_relaxed);
  return {view->exports, drop_count};
}

PyObject* lend_tensor_view(const DLTensor* tensor) {
  Reference self(g_type.make());
  if (!self) return nullptr;
  as_view(self.get())->exports = new (std::nothrow) std::atomic<int>(1);
  if (as_view(self.get())->exports == nullptr) return PyErr_NoMemory();
  as_view(self.get())->tensor = tensor;
  return self.release();
}

int end_tensor_view(PyObject* self) {
  as_view(self)->tensor = nullptr;
  return as_view(self)->exports->load(std::memory_order_acquire) - 1;
}

int add_tensor_view(PyObject* module) {
  return g_type.add(module, "weft._native.TensorView", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                    {{Py_tp_doc, kDoc},
                     {Py_tp_new, create},
                     {Py_tp_dealloc, Type<View>::dealloc<release>},
                     {Py_tp_repr, repr},
                     {Py_tp_methods, kMethods},
                     {Py_tp_getset, kTensorProperties},
                     {Py_tp_members, kMembers},
                     {Py_bf_getbuffer, get_buffer},
                     {Py_bf_releasebuffer, release_buffer}});
}

}  // namespace weft
