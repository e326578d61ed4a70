// SPDX-License-Identifier: Apache-2.0
//
// The properties common to Tensor and TensorView, in one table.
#ifndef WEFT_PYTHON_TENSOR_PROPERTIES_H_
#define WEFT_PYTHON_TENSOR_PROPERTIES_H_

#include "python/common.h"
#include "python/tensors/dlpack_export.h"

namespace weft {

// A tensor's description, borrowed from its Python object.
struct TensorDescription {
  const DLTensor* tensor;  // nullptr with an exception if it is moved from or no longer valid
  bool read_only;
};

// Of a Tensor or a TensorView.
TensorDescription describe_tensor(PyObject* self);

// References that an export of either must hold while in use. 0, or -1 with an exception.
int keep_tensor(PyObject* self, Keeper* keeper);

bool is_contiguous(const DLTensor& tensor);
int64_t count_elements(const DLTensor& tensor);

extern PyGetSetDef kTensorProperties[];

}  // namespace weft

#endif  // WEFT_PYTHON_TENSOR_PROPERTIES_H_
