// SPDX-License-Identifier: Apache-2.0
//
// torch throws through code that must not throw: the process ends in std::terminate. A producer does not
// learn who consumes its capsule, so torch's own Python function, through which all its imports go, is looked
// for on the stack; only for tensors that run backward.
#include "python/tensors/dlpack_consumer.h"

#include <cstdio>

namespace weft {
namespace {

constexpr char kTorchImporter[] = "torch.utils.dlpack";

// Whether one of the running Python frames is of torch's importer. No exception is left.
bool torch_is_asking() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  bool found = false;
  while (frame != nullptr && !found) {
    Reference globals(PyFrame_GetGlobals(frame));
    PyObject* name = globals ? PyDict_GetItemString(globals.get(), "__name__") : nullptr;
    found = name != nullptr && PyUnicode_Check(name) &&
            PyUnicode_CompareWithASCIIString(name, kTorchImporter) == 0;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

// NumPy before 2.1 asks like a call by hand, without an argument.
bool numpy_asks_without_arguments() {
  PyObject* numpy = imported_module("numpy");
  Reference version(numpy == nullptr ? nullptr : PyObject_GetAttrString(numpy, "__version__"));
  const char* text = version && PyUnicode_Check(version.get()) ? PyUnicode_AsUTF8(version.get()) : nullptr;
  int major = 0;
  int minor = 0;
  const bool known = text != nullptr && std::sscanf(text, "%d.%d", &major, &minor) == 2;
  PyErr_Clear();
  return known && (major < 2 || (major == 2 && minor < 1));
}

}  // namespace

bool runs_backward(const DLTensor& tensor) {
  bool backward = false;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    if (tensor.shape[axis] == 0) return false;
    backward |= tensor.strides != nullptr && tensor.strides[axis] < 0 && tensor.shape[axis] > 1;
  }
  return backward;
}

WEFT_COLD int refuse_backward() {
  return refuse(PyExc_TypeError,
                "this tensor has a negative stride, which torch does not support; export a copy: "
                "numpy.ascontiguousarray(array), or __dlpack__(copy=True)");
}

int check_consumer(const DLTensor& tensor, bool versioned, bool is_bare) {
  if (WEFT_LIKELY(!runs_backward(tensor))) return 0;
  const bool is_numpy = !versioned && numpy_asks_without_arguments();
  return torch_is_asking() || (is_bare && !is_numpy) ? refuse_backward() : 0;
}

}  // namespace weft
