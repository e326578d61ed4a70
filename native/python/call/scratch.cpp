// SPDX-License-Identifier: Apache-2.0
//
// The rare half of Scratch: heap blocks and the end of the call.
#include "python/call/scratch.h"

#include <cstdlib>

namespace weft {

Export* Scratch::keep(void* managed, void (*release)(void*)) {
  auto* exported = static_cast<Export*>(take(sizeof(Export)));
  if (exported == nullptr) {
    release(managed);
    return nullptr;
  }
  *exported = {managed, release};
  auto give_back = [](void* object) {
    auto* held = static_cast<Export*>(object);
    if (held->managed != nullptr) held->release(held->managed);
  };
  return at_end(give_back, exported) == 0 ? exported : nullptr;
}

// The block's own first bytes hold its entry in the undo list.
void* Scratch::take_from_heap(size_t bytes) {
  constexpr size_t kHeader = (sizeof(Undo) + 15) & ~static_cast<size_t>(15);
  char* block = static_cast<char*>(std::malloc(kHeader + bytes));
  if (block == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  Undo* entry = reinterpret_cast<Undo*>(block);
  *entry = {std::free, block, undo_};
  undo_ = entry;
  return block + kHeader;
}

// Keeps a pending exception: undoing may run Python code.
void Scratch::undo_all() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Undo* entry = undo_;
  undo_ = nullptr;
  while (entry != nullptr) {
    Undo* next = entry->next;
    entry->undo(entry->object);
    entry = next;
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace weft
