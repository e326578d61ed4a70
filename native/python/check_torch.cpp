// SPDX-License-Identifier: Apache-2.0
//
// What torch tensors are asked in Python: for readers that cannot see it themselves, for classes with
// their own dispatch, and to say why a tensor was refused.
#include "python/readers.h"

namespace weft {
namespace {

// `tensor.question()` or `tensor.question`; false when it cannot be answered.
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
                "expected a tensor with memory, received a %s of dtype %S on device %S that has none that a "
                "kernel can use (inside a functional transform, or a type without a DLPack equivalent)",
                Py_TYPE(object)->tp_name, dtype.get(), device.get());
}

}  // namespace weft
