// SPDX-License-Identifier: Apache-2.0
//
// The rungs of the reader ladder, one file each. Every reader copies dims and strides (in elements) into
// the call's scratch, refuses tensors whose memory does not match their description, and raises TypeError or
// ValueError without the argument's name, which the caller adds.
#ifndef WEFT_PYTHON_READERS_H_
#define WEFT_PYTHON_READERS_H_

#include "python/values/type_table.h"

namespace weft {

// read_numpy.cpp: NumPy's array structure, whose layout is NumPy's public ABI.
bool prepare_numpy();  // false if NumPy is not imported or its layout is unexpected
int read_numpy(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);
int check_numpy_subclass(PyObject* object);  // masked arrays
// The DLPack type of a registered dtype by name; bits 0 if it has none.
DLDataType numpy_type_of_name(const char* name);

// read_torch.cpp: the C shim of the torch that the program has imported.
bool prepare_torch();        // false if torch is not imported or a probe disagrees
bool torch_probe_pending();  // torch is imported, but could not be probed yet: ask again
int read_torch(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

// check_torch.cpp: the queries through Python.
int check_torch(PyObject* object);          // conj, neg, zero, sparse, meta, fake
int check_torch_wrapper(PyObject* object);  // for classes with their own __torch_dispatch__
bool has_own_torch_dispatch(PyTypeObject* type);
WEFT_COLD int explain_torch(PyObject* object);  // why the shim could not read it; always -1

// read_dlpack.cpp: the C exchange API and the __dlpack__ method.
const DLPackExchangeAPI* find_exchange_api(PyTypeObject* type);
int read_exchange(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);
int read_dlpack(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

int read_capsule(PyObject* capsule, Scratch& scratch, TensorView* view);  // a capsule by itself
// A managed tensor over the object's memory that outlives the call; false without an exception.
bool export_for_keeping(PyObject* object, const TypeEntry& entry, Export* exported);

// read_cuda_array.cpp and read_buffer.cpp.
int read_cuda_array(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);
int read_buffer(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

// read_common.cpp: immutable arrays as read-only ones, by their family's rung.
int read_immutable(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

// Copies `ndim` dims and strides (derived if absent) into scratch and the view. Returns 0, or -1 with
// MemoryError.
inline int copy_dims(Scratch& scratch, const int64_t* shape, const int64_t* strides, int32_t ndim,
                     DLTensor* tensor) {
  tensor->ndim = ndim;
  int64_t* dims = scratch.take_array<int64_t>(static_cast<size_t>(ndim) * 2);
  if (WEFT_UNLIKELY(dims == nullptr)) return -1;
  tensor->shape = dims;
  tensor->strides = dims + ndim;
  for (int32_t axis = 0; axis < ndim; ++axis) dims[axis] = shape[axis];
  if (WEFT_LIKELY(strides != nullptr)) {
    for (int32_t axis = 0; axis < ndim; ++axis) tensor->strides[axis] = strides[axis];
    return 0;
  }
  int64_t stride = 1;
  for (int32_t axis = ndim; axis-- > 0;) {
    tensor->strides[axis] = stride;
    stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(shape[axis]));
  }
  return 0;
}

// Refuses a description, strides included, of elements that lie outside the address space: negative dims, and
// products and sums that wrap. For readers of untrusted descriptions.
int check_extent(PyObject* object, const DLTensor& tensor);

// Refuses a NULL pointer to elements.
WEFT_COLD int refuse_null_data(PyObject* object, const DLTensor& tensor);
inline int check_data(PyObject* object, const DLTensor& tensor) {
  if (WEFT_LIKELY(tensor.data != nullptr)) return 0;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
  }
  return refuse_null_data(object, tensor);
}

// Divides byte strides by the element size; refuses remainders, except for dims of at most one element, whose
// stride is meaningless.
int strides_from_bytes(DLTensor* tensor, int64_t item_bytes);

}  // namespace weft

#endif  // WEFT_PYTHON_READERS_H_
