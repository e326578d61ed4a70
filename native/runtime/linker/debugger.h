// SPDX-License-Identifier: Apache-2.0
//
// Tells gdb of code that is linked in memory.
//
// In: an object and where its sections lie. Out: an entry of gdb's list of such objects, with a copy of the
// object. Source: "JIT Compilation Interface" in gdb's manual.
#ifndef WEFT_RUNTIME_LINKER_DEBUGGER_H_
#define WEFT_RUNTIME_LINKER_DEBUGGER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/linker/elf_object.h"

namespace weft {

struct jit_code_entry;

// One object's entry in gdb's list, withdrawn with it. Needs the GIL.
class DebuggerEntry {
 public:
  DebuggerEntry();
  DebuggerEntry(const DebuggerEntry&) = delete;
  DebuggerEntry& operator=(const DebuggerEntry&) = delete;
  ~DebuggerEntry();

  // Copies the object's bytes, with its sections' addresses, and stops a debugger that is attached to read
  // them.
  void report(const ElfObject& object, size_t size, const std::vector<char*>& places);
  void withdraw();

 private:
  std::string copy_;
  std::unique_ptr<jit_code_entry> entry_;
};

}  // namespace weft

#endif  // WEFT_RUNTIME_LINKER_DEBUGGER_H_
