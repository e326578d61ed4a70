// SPDX-License-Identifier: Apache-2.0
//
// The rule of read-only memory: it is never passed to code that may write to it, at any depth. A DLTensor has
// no such flag, so the marshaller checks.
#ifndef WEFT_PYTHON_WRITABLE_H_
#define WEFT_PYTHON_WRITABLE_H_

#include "python/values/encode/encode.h"

namespace weft {

inline bool may_be_written(uint8_t flags, const CallFrame& frame) {
  return (flags & kArgumentWritten) != 0 || frame.writer != Writer::kNobody;
}

// Refuses a read-only array; `immutable` is the class of arrays that their library never changes, or nullptr.
// Always -1.
WEFT_COLD int refuse_unwritable(const PyTypeObject* immutable, uint8_t flags, const CallFrame& frame);

// An array that is read-only, or a copy that its library made: a kernel's writes into a copy would be lost.
// 0, or -1 with ValueError.
WEFT_COLD int check_array_memory(const TensorView& view, const TypeEntry& entry, uint8_t flags,
                                 const CallFrame& frame);

// An object of the ABI, which may be a tensor or hold some. 0, or -1 with ValueError.
int check_object_memory(const TVMFFIObject* object, uint8_t flags, const CallFrame& frame);

}  // namespace weft

#endif  // WEFT_PYTHON_WRITABLE_H_
