// SPDX-License-Identifier: Apache-2.0
//
// The list that gdb reads. Its names and layout are gdb's; each library of a process may have its own.
// Python's lock guards it.
#include "runtime/linker/debugger.h"

#include <cstring>

namespace weft {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};

}  // namespace weft

extern "C" {

struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;
  weft::jit_code_entry* relevant_entry;
  weft::jit_code_entry* first_entry;
};

__attribute__((visibility("default"), used)) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};

// gdb puts a breakpoint here.
__attribute__((visibility("default"), noinline, used)) void __jit_debug_register_code() {
  __asm__ volatile("" ::: "memory");
}
}

namespace weft {
namespace {

enum Action : uint32_t { kNothing = 0, kRegister = 1, kUnregister = 2 };

void announce(jit_code_entry* entry, Action action) {
  __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_register_code();
  __jit_debug_descriptor.action_flag = kNothing;
}

}  // namespace

DebuggerEntry::DebuggerEntry() = default;
DebuggerEntry::~DebuggerEntry() { withdraw(); }

void DebuggerEntry::report(const ElfObject& object, size_t size, const std::vector<char*>& places) {
  copy_.assign(object.bytes, size);
  Elf64_Ehdr header;
  std::memcpy(&header, copy_.data(), sizeof(header));
  for (size_t index = 0; index < places.size(); ++index) {
    if (places[index] == nullptr) continue;
    Elf64_Shdr section = object.sections[index];
    section.sh_addr = reinterpret_cast<uint64_t>(places[index]);
    std::memcpy(&copy_[header.e_shoff + index * sizeof(section)], &section, sizeof(section));
  }
  entry_ = std::make_unique<jit_code_entry>(jit_code_entry{nullptr, nullptr, copy_.data(), copy_.size()});
  entry_->next_entry = __jit_debug_descriptor.first_entry;
  if (entry_->next_entry != nullptr) entry_->next_entry->prev_entry = entry_.get();
  __jit_debug_descriptor.first_entry = entry_.get();
  announce(entry_.get(), kRegister);
}

void DebuggerEntry::withdraw() {
  if (entry_ == nullptr) return;
  if (entry_->prev_entry != nullptr) entry_->prev_entry->next_entry = entry_->next_entry;
  if (entry_->next_entry != nullptr) entry_->next_entry->prev_entry = entry_->prev_entry;
  if (__jit_debug_descriptor.first_entry == entry_.get())
    __jit_debug_descriptor.first_entry = entry_->next_entry;
  announce(entry_.get(), kUnregister);
  entry_.reset();
}

}  // namespace weft
