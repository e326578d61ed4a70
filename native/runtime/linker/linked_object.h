// SPDX-License-Identifier: Apache-2.0
//
// A relocatable object in this process's memory, ready to run.
//
//   [ code, stubs | constants | data that only relocations change, slots | data ]   one mapping, four
//   protections
//
// In: an object's bytes. Out: addresses of its symbols, valid until it is destroyed. No memory is ever
// writable and executable at once. Undefined symbols are looked up in the process, then in libm.
#ifndef WEFT_RUNTIME_LINKER_LINKED_OBJECT_H_
#define WEFT_RUNTIME_LINKER_LINKED_OBJECT_H_

#include <memory>
#include <string>

#include "runtime/linker/debugger.h"
#include "runtime/linker/elf_object.h"

namespace weft {

class LinkedObject {
 public:
  // Links an object of `size` bytes, which are not needed later. `is_reported`: whether it is registered with
  // gdb. NULL with a sentence if that is impossible.
  static std::unique_ptr<LinkedObject> make(const char* bytes, size_t size, bool is_reported,
                                            std::string* error);
  LinkedObject(const LinkedObject&) = delete;
  LinkedObject& operator=(const LinkedObject&) = delete;
  ~LinkedObject();

  // The address of a global symbol, or NULL.
  void* find(const std::string& name) const;

 private:
  friend class Linker;
  LinkedObject() = default;

  struct Export {
    std::string name;
    void* address;
  };

  char* memory_ = nullptr;  // one mapping, owned
  size_t bytes_ = 0;
  std::vector<Export> exports_;
  DebuggerEntry debugger_;
};

}  // namespace weft

#endif  // WEFT_RUNTIME_LINKER_LINKED_OBJECT_H_
