// SPDX-License-Identifier: Apache-2.0
//
// From FFI values to Python objects.
#ifndef WEFT_PYTHON_RESULT_H_
#define WEFT_PYTHON_RESULT_H_

#include "python/values/type_table.h"

namespace weft {

enum class ObjectMode : uint8_t {
  kValues,   // ffi.Array as a tuple and ffi.Map as a dict, copied; the mutable ffi.List and ffi.Dict as
             // objects
  kObjects,  // every container as an object of weft.ffi
  kTvmFfi,   // objects as instances of the tvm_ffi package's classes
};

// How the results of a function, and the arguments of a callback, become Python objects.
struct ResultPolicy {
  const TypeEntry* tensors = nullptr;  // of the class of tensors; nullptr: weft.ffi.Tensor
  bool chosen = false;                 // the class was requested; else it is that of the call's first tensor
  ObjectMode objects = ObjectMode::kValues;
};

// Converts an owned value and takes over its reference, even on failure.
PyObject* result_to_python(TVMFFIAny value, const ResultPolicy& policy);

// Converts a borrowed value: any kind of argument except DLTensor*, whose memory is only lent.
PyObject* view_to_python(const TVMFFIAny& value, const ResultPolicy& policy);

// A tensor object as an instance of the policy's class (result_tensor.cpp). Takes over the reference.
PyObject* tensor_to_python(TVMFFIObject* object, const ResultPolicy& policy);

// Whether an array that stands for a tensor may be returned itself: no other class was requested.
bool fits(PyObject* object, const ResultPolicy& policy);

// Containers as a tuple and a dict (result_container.cpp). They take over the reference.
PyObject* array_to_python(TVMFFIObject* object, const ResultPolicy& policy);
PyObject* map_to_python(TVMFFIObject* object, const ResultPolicy& policy);

// Converts a compiled function's tuple by CallPlan::result, to a list, a named tuple, a dataclass, no deeper
// than compiled. A new reference.
PyObject* restore_result(PyObject* tuple, PyObject* plan);

// An exporting object's tensor as an instance of a class; `source` is a Tensor or a
// TensorView.
PyObject* import_exporter(PyObject* source, const DLTensor& tensor, const TypeEntry& entry);

// `tensor_type=` of the public functions: an array class, or None. 0, or -1 with TypeError.
int set_tensor_type(PyObject* tensor_type, ResultPolicy* policy);

// `objects=` of the public functions: "values", "objects", "tvm_ffi" or None, which is "values". 0, or -1
// with ValueError.
int set_object_mode(PyObject* mode, ResultPolicy* policy);
const char* object_mode_name(ObjectMode mode);

}  // namespace weft

#endif  // WEFT_PYTHON_RESULT_H_
