// SPDX-License-Identifier: Apache-2.0
//
// The memory of one call: a bump allocator on the stack that falls back to the heap, and a list of undo
// actions for the call's end, last first. Ordinary arguments allocate nothing.
#ifndef WEFT_PYTHON_SCRATCH_H_
#define WEFT_PYTHON_SCRATCH_H_

#include <cstddef>

#include "python/common.h"

namespace weft {

// Memory that a DLPack producer handed out, with its deleter.
struct Export {
  void* managed;
  void (*release)(void*);
};

class Scratch {
 public:
  Scratch() {}  // leaves the buffer uninitialized
  ~Scratch() {
    if (WEFT_UNLIKELY(undo_ != nullptr)) or_wait_for_the_end([this] { undo_all(); });
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The stream that the call runs on, as far as it is known: producers order their work before it.
  void* stream = nullptr;
  DLDevice stream_device{kDLCPU, 0};  // kDLCPU: not known

  // Memory that lives until the end of the call, 16-byte aligned; nullptr with MemoryError set.
  void* take(size_t bytes) {
    bytes = (bytes + 15) & ~static_cast<size_t>(15);
    if (WEFT_LIKELY(bytes <= kInlineBytes - used_)) {
      void* memory = buffer_ + used_;
      used_ += bytes;
      return memory;
    }
    return take_from_heap(bytes);
  }

  template <typename T>
  T* take_array(size_t count) {
    return static_cast<T*>(take(sizeof(T) * count));
  }

  // Takes over a producer's export; it is released when the call ends unless it was taken out of the Export
  // by then. nullptr with MemoryError set; then it has been released already.
  Export* keep(void* managed, void (*release)(void*));

  // Calls `undo(object)` when the call ends, with the GIL held. Returns 0, or -1 with MemoryError set;
  // then `undo` has run already.
  int at_end(void (*undo)(void*), void* object) {
    Undo* entry = static_cast<Undo*>(take(sizeof(Undo)));
    if (entry == nullptr) {
      undo(object);
      return -1;
    }
    *entry = {undo, object, undo_};
    undo_ = entry;
    return 0;
  }

 private:
  struct Undo {
    void (*undo)(void*);
    void* object;
    Undo* next;
  };
  static constexpr size_t kInlineBytes = 1536;  // eight tensors of rank eight

  void* take_from_heap(size_t bytes);
  void undo_all();

  size_t used_ = 0;
  Undo* undo_ = nullptr;
  alignas(16) char buffer_[kInlineBytes];
};

}  // namespace weft

#endif  // WEFT_PYTHON_SCRATCH_H_
