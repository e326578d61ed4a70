// SPDX-License-Identifier: Apache-2.0
//
// Tensors on the host as arrays: the buffer protocol, __array__, indices, elements. Memory of a GPU has views
// and dims; what would read it says how it is copied.
#ifndef WEFT_PYTHON_HOST_ARRAY_H_
#define WEFT_PYTHON_HOST_ARRAY_H_

#include "python/tensors/tensor_properties.h"

namespace weft {

// bf_getbuffer and bf_releasebuffer of Tensor and TensorView. An export holds the memory, not the object.
int get_buffer(PyObject* self, Py_buffer* buffer, int flags);
void release_buffer(PyObject* self, Py_buffer* buffer);

// __array__(dtype=None, copy=None) of both: weft.ffi.tensor.to_numpy.
PyObject* to_numpy(PyObject* self, PyObject* arguments, PyObject* keywords);

// Of Tensor: mp_length, mp_subscript and mp_ass_subscript, and the methods below.
Py_ssize_t tensor_length(PyObject* self);
PyObject* tensor_item(PyObject* self, PyObject* index);
int set_tensor_item(PyObject* self, PyObject* index, PyObject* value);
PyObject* only_item(PyObject* self, PyObject* unused);
PyObject* to_list(PyObject* self, PyObject* unused);
PyObject* to_bytes(PyObject* self, PyObject* unused);

// Whether the host reads this memory as its own.
bool is_host_memory(DLDevice device);

}  // namespace weft

#endif  // WEFT_PYTHON_HOST_ARRAY_H_
