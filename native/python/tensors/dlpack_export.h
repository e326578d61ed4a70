// SPDX-License-Identifier: Apache-2.0
//
// DLPack exports of tensors that weft holds: managed tensors with a deleter that any thread may call.
#ifndef WEFT_PYTHON_DLPACK_EXPORT_H_
#define WEFT_PYTHON_DLPACK_EXPORT_H_

#include "python/common.h"

namespace weft {

// Kept alive by an export. `drop(object)` runs once, on the deleter's thread.
struct Keeper {
  void* object;
  void (*drop)(void* object);
};

// A managed tensor over the memory of `tensor`, with its own dims. Takes over the keeper, even on failure.
// nullptr with MemoryError.
DLManagedTensorVersioned* export_versioned(const DLTensor& tensor, uint64_t flags, Keeper keeper);
DLManagedTensor* export_legacy(const DLTensor& tensor, Keeper keeper);

// The arguments of a __dlpack__ method.
struct ExportOptions {
  bool versioned = false;
  bool copies = false;  // of memory of its own
  DLDevice device{};    // where the consumer wants it
  bool orders = false;  // the consumer's stream waits for ours
  void* stream = nullptr;
  bool is_bare = false;  // no argument but max_version: the consumer is unknown
};
// Parses (*, stream, max_version, dl_device, copy) and checks them against the tensor's device. 0, or -1
// with BufferError, TypeError or ValueError.
int parse_export_options(PyObject* arguments, PyObject* keywords, const DLTensor& tensor,
                         ExportOptions* options);

// A capsule over either form, of a copy where one is requested; takes over the keeper, even on failure.
// nullptr with TypeError for strides that would abort the consumer.
PyObject* export_capsule(const DLTensor& tensor, uint64_t flags, const ExportOptions& options, Keeper keeper);

}  // namespace weft

#endif  // WEFT_PYTHON_DLPACK_EXPORT_H_
