// SPDX-License-Identifier: Apache-2.0
//
// Reference-counted tensors (type index 70) over the memory of an argument, for callees that keep or return
// their arguments. Cells are pooled; one still referenced when the call ends has escaped: it then holds its
// memory's owner and frees itself.
#ifndef WEFT_PYTHON_TENSOR_CELL_H_
#define WEFT_PYTHON_TENSOR_CELL_H_

#include "python/tensors/dlpack_export.h"
#include "python/values/type_table.h"

namespace weft {

// A cell for `source` with the contents of `view`, returned to the pool when the scratch ends. nullptr with
// an exception set.
TVMFFIObject* take_cell(PyObject* source, const TypeEntry& entry, const TensorView& view, Scratch& scratch);

// Keeps the memory of `view` until the scratch ends, whatever happens to `source`. Returns the tensor that a
// cell over it should be made from, borrowed, or nullptr with an exception set. The caller already holds
// `held`.
PyObject* hold_memory(PyObject* source, const TypeEntry& entry, const TensorView& view, PyObject* held,
                      Scratch& scratch);

// A tensor object that owns `source`'s memory, for kept values: the caller owns a reference.
// nullptr with an exception set.
TVMFFIObject* make_tensor(PyObject* source, const TypeEntry& entry, const TensorView& view);

// A tensor object over a part of another's memory. It holds what that one is a view of, if it is one, so that
// views of views do not pile up. The same.
TVMFFIObject* make_view(TVMFFIObject* of, const DLTensor& part);

// Keeps a tensor object; drop_handle gives it back, on any thread.
Keeper keep_handle(TVMFFIObject* handle);
void drop_handle(void* handle);

// A tensor object over a DLPack capsule, which it takes over. The same.
TVMFFIObject* make_tensor_of_capsule(PyObject* capsule);

// The array that a tensor object stands for, borrowed: a running call's argument, or an escaped cell's NumPy
// array if unchanged. Else nullptr without an exception.
PyObject* source_of_cell(const TVMFFIObject* object);

// Whether the producer of a cell's memory forbids writing; false for objects that are not cells.
bool is_read_only_cell(const TVMFFIObject* object);

// DLPack's flags for an export of a tensor object. The older form cannot express read-only memory, so its
// exporter must refuse that; immutable arrays are exported as their library does.
uint64_t export_flags(const TVMFFIObject* object, bool versioned);

// Whether there are cells over read-only memory now; thread-safe.
bool read_only_cells_exist();

inline DLTensor* tensor_of(TVMFFIObject* object) { return reinterpret_cast<DLTensor*>(object + 1); }
inline const DLTensor* tensor_of(const TVMFFIObject* object) {
  return reinterpret_cast<const DLTensor*>(object + 1);
}

}  // namespace weft

#endif  // WEFT_PYTHON_TENSOR_CELL_H_
