// SPDX-License-Identifier: Apache-2.0
//
// Queries of torch tensors through Python: for readers that cannot see the answers, for classes with their
// own dispatch, and to explain why a tensor was refused.
#include <cstring>

#include "python/readers/readers.h"

namespace weft {
namespace {

// `tensor.question()` or `tensor.question`; false if it fails.
bool answers(PyObject* tensor, const char* question, bool call) {
  Reference value(call ? PyObject_CallMethod(tensor, question, nullptr)
                       : PyObject_GetAttrString(tensor, question));
  int truth = value ? PyObject_IsTrue(value.get()) : 0;
  if (truth < 0 || !value) PyErr_Clear();
  return truth > 0;
}

bool is_strided(PyObject* tensor) {
  Reference layout(PyObject_GetAttrString(tensor, "layout"));
  Reference strided(imported_attribute("torch", "strided"));
  if (!layout || !strided) PyErr_Clear();
  return layout.get() == strided.get();
}

// `module.question(tensor)` of a module that torch has imported; false if it fails.
bool module_answers(const char* module, const char* question, PyObject* tensor) {
  Reference function(imported_attribute(module, question));
  Reference value(function ? PyObject_CallOneArg(function.get(), tensor) : nullptr);
  int truth = value ? PyObject_IsTrue(value.get()) : 0;
  if (truth < 0 || !value) PyErr_Clear();
  return truth > 0;
}

// torch.int1 to int7, their unsigned forms and torch.bits*: torch stores one element per byte and exports
// them as 8-bit numbers, or not at all.
bool is_narrow(PyObject* dtype) {
  Reference text(PyObject_Str(dtype));
  const char* name = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (name == nullptr) {
    PyErr_Clear();
    return false;
  }
  const char* dot = std::strrchr(name, '.');
  name = dot == nullptr ? name : dot + 1;
  if (std::strncmp(name, "bits", 4) == 0) return true;
  if (*name == 'u') ++name;
  return std::strncmp(name, "int", 3) == 0 && name[3] >= '1' && name[3] <= '7' && name[4] == '\0';
}

struct View {
  const char* question;
  const char* sentence;
};
constexpr View kViews[] = {
    {"is_conj",
     "a conjugate view, whose memory holds the values before conjugation; pass tensor.resolve_conj()"},
    {"is_neg", "a negative view, whose memory holds the values before negation; pass tensor.resolve_neg()"},
    {"_is_zerotensor", "a zero tensor, which has no memory; pass tensor.clone()"},
};

}  // namespace

int check_torch(PyObject* object) {
  if (is_instance_of_imported(object, "torch._subclasses.fake_tensor", "FakeTensor")) {
    return refuse(PyExc_TypeError, "expected a tensor with memory, received a FakeTensor, which has none");
  }
  if (answers(object, "is_meta", false)) {
    return refuse(PyExc_ValueError,
                  "expected a tensor with memory, received one on the meta device, which has none");
  }
  if (answers(object, "is_nested", false)) {
    return refuse(PyExc_TypeError, "expected a dense tensor, received a nested tensor");
  }
  if (!is_strided(object)) {
    Reference layout(PyObject_GetAttrString(object, "layout"));
    if (!layout) return -1;
    return refuse(PyExc_TypeError, "expected a dense tensor, received layout %S; pass tensor.to_dense()",
                  layout.get());
  }
  if (answers(object, "is_quantized", false)) {
    return refuse(PyExc_TypeError,
                  "expected a tensor of numbers, received a quantized tensor; pass tensor.int_repr()");
  }
  Reference dtype(PyObject_GetAttrString(object, "dtype"));
  if (!dtype) PyErr_Clear();
  if (dtype && is_narrow(dtype.get())) {
    return refuse(
        PyExc_TypeError,
        "expected elements of whole bytes, received %S, which torch stores one per byte and exports as "
        "another type; pass tensor.view(torch.uint8), its bytes",
        dtype.get());
  }
  if (module_answers("torch._C._functorch", "is_functorch_wrapped_tensor", object)) {
    return refuse(
        PyExc_TypeError,
        "expected a tensor with memory, received a stand-in inside a transform such as vmap or grad, "
        "whose values are elsewhere; call the function outside the transform");
  }
  if (module_answers("torch", "_is_functional_tensor", object)) {
    return refuse(
        PyExc_TypeError,
        "expected a tensor with memory, received a functional tensor, whose values are in another one; "
        "pass torch._from_functional_tensor(tensor)");
  }
  for (const View& view : kViews) {
    if (answers(object, view.question, true)) {
      return refuse(PyExc_ValueError, "expected a tensor whose memory holds its values, received %s",
                    view.sentence);
    }
  }
  return 0;
}

int check_torch_wrapper(PyObject* object) {
  if (check_torch(object) != 0) return -1;
  Reference pointer(PyObject_CallMethod(object, "data_ptr", nullptr));
  Reference elements(pointer ? PyObject_CallMethod(object, "numel", nullptr) : nullptr);
  if (!elements) PyErr_Clear();
  if (elements && (PyLong_AsVoidPtr(pointer.get()) != nullptr || PyLong_AsLongLong(elements.get()) == 0)) {
    return PyErr_Occurred() ? -1 : 0;
  }
  PyErr_Clear();
  return refuse(PyExc_TypeError,
                "expected a tensor with memory, received the wrapper subclass %s, whose values are in other "
                "tensors",
                Py_TYPE(object)->tp_name);
}

bool has_own_torch_dispatch(PyTypeObject* type) {
  Reference base(imported_attribute("torch", "Tensor"));
  Reference inherited(base ? PyObject_GetAttr(base.get(), g_names.__torch_dispatch__) : nullptr);
  Reference own(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), g_names.__torch_dispatch__));
  if (!inherited || !own) {
    PyErr_Clear();
    return true;
  }
  return inherited.get() != own.get();
}

int explain_torch(PyObject* object) {
  if (check_torch(object) != 0) return -1;
  Reference dtype(PyObject_GetAttrString(object, "dtype"));
  Reference device(dtype ? PyObject_GetAttrString(object, "device") : nullptr);
  if (!device) PyErr_Clear();
  if (!device)
    return refuse(PyExc_TypeError, "expected a tensor with memory, received one that cannot be read");
  return refuse(PyExc_TypeError,
                "expected a tensor with memory, received a %s of dtype %S on device %S that has none a "
                "kernel can use: its storage is empty, or its type or device has no DLPack equivalent",
                Py_TYPE(object)->tp_name, dtype.get(), device.get());
}

}  // namespace weft
