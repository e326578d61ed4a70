// SPDX-License-Identifier: Apache-2.0
//
// DLPack exports of tensors that weft holds: managed tensors with a deleter that any thread may call.
#ifndef WEFT_PYTHON_DLPACK_EXPORT_H_
#define WEFT_PYTHON_DLPACK_EXPORT_H_

#include "python/common.h"

namespace weft {

// What an export keeps alive. `drop(object)` runs once, on whatever thread calls the deleter.
struct Keeper {
  void* object;
  void (*drop)(void* object);
};

// A managed tensor over the memory of `tensor`, with dims of its own. It takes over the keeper, also when
// it fails. nullptr with MemoryError.
DLManagedTensorVersioned* export_versioned(const DLTensor& tensor, uint64_t flags, Keeper keeper);
DLManagedTensor* export_legacy(const DLTensor& tensor, Keeper keeper);

// The arguments of a __dlpack__ method.
struct ExportOptions {
  bool versioned = false;
};
// Parses (*, stream, max_version, dl_device, copy) and checks them against the tensor's device. 0, or -1
// with BufferError or TypeError.
int parse_export_options(PyObject* arguments, PyObject* keywords, const DLTensor& tensor,
                         ExportOptions* options);

// A capsule over either form; it takes over the keeper, also when it fails.
PyObject* export_capsule(const DLTensor& tensor, uint64_t flags, const ExportOptions& options, Keeper keeper);

}  // namespace weft

#endif  // WEFT_PYTHON_DLPACK_EXPORT_H_
