// SPDX-License-Identifier: Apache-2.0
//
// A relocatable ELF object, read without trusting it: bytes may come from a file.
//
// In: bytes that outlive the reader. Out: sections, symbols and relocations, each inside the bytes. Source:
// the System V ABI's chapters on object files, elf(5).
#ifndef WEFT_RUNTIME_LINKER_ELF_OBJECT_H_
#define WEFT_RUNTIME_LINKER_ELF_OBJECT_H_

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// The machine that this process runs on, such as EM_X86_64; EM_NONE if the linker does not know it.
uint16_t host_machine();

struct ElfRelocations {
  uint32_t target = 0;  // index of the section that they change
  std::vector<Elf64_Rela> entries;
};

struct ElfObject {
  const char* bytes = nullptr;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  std::vector<std::string> symbol_names;
  std::vector<ElfRelocations> relocations;  // of sections that are loaded

  // Whether the program needs the section in memory.
  bool is_loaded(uint32_t section) const { return (sections[section].sh_flags & SHF_ALLOC) != 0; }
};

// Reads an object; false with a sentence if it is not one for this machine, or if it is damaged.
bool read_elf_object(const char* bytes, size_t size, ElfObject* object, std::string* error);

}  // namespace weft

#endif  // WEFT_RUNTIME_LINKER_ELF_OBJECT_H_
