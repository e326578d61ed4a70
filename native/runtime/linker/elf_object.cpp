// SPDX-License-Identifier: Apache-2.0
//
// Reading a relocatable object with every bound checked.
#include "runtime/linker/elf_object.h"

#include <cstring>

namespace weft {
namespace {

constexpr uint64_t kMostAlignment = 1 << 16;

class Reader {
 public:
  Reader(const char* bytes, size_t size, ElfObject* object, std::string* error)
      : bytes_(bytes), size_(size), object_(object), error_(error) {}

  bool read() {
    object_->bytes = bytes_;
    return read_header() && read_sections() && read_symbols() && read_relocations();
  }

 private:
  bool fail(const std::string& what) {
    *error_ = what;
    return false;
  }

  // Whether `count` items of `bytes` each lie inside the object.
  bool holds(uint64_t offset, uint64_t count, uint64_t bytes) const {
    uint64_t all = 0;
    return !__builtin_mul_overflow(count, bytes, &all) && offset <= size_ && all <= size_ - offset;
  }

  bool read_header() {
    if (size_ < sizeof(header_)) return fail("it is shorter than an ELF header");
    std::memcpy(&header_, bytes_, sizeof(header_));
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return fail("it is not an ELF file");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_type != ET_REL) {
      return fail("it is not a 64-bit little-endian relocatable object");
    }
    if (header_.e_machine != host_machine()) {
      return fail("it is for ELF machine " + std::to_string(header_.e_machine) +
                  ", and this process runs on " + std::to_string(host_machine()));
    }
    return true;
  }

  bool read_sections() {
    if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shnum == 0 ||
        !holds(header_.e_shoff, header_.e_shnum, sizeof(Elf64_Shdr))) {
      return fail("its section headers lie outside of it");
    }
    object_->sections.resize(header_.e_shnum);
    std::memcpy(object_->sections.data(), bytes_ + header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr));
    uint64_t loaded = 0;
    for (const Elf64_Shdr& section : object_->sections) {
      if (section.sh_type != SHT_NOBITS && !holds(section.sh_offset, section.sh_size, 1)) {
        return fail("a section lies outside of it");
      }
      const uint64_t alignment = section.sh_addralign;
      if (alignment > kMostAlignment || (alignment & (alignment - 1)) != 0)
        return fail("a section's alignment is wrong");
      if ((section.sh_flags & SHF_ALLOC) == 0) continue;
      if ((section.sh_flags & SHF_TLS) != 0) return fail("it has thread-local variables");
      if (__builtin_add_overflow(loaded, section.sh_size, &loaded) || loaded > INT32_MAX) {
        return fail("it needs 2 GB or more of memory");
      }
    }
    return true;
  }

  bool read_symbols() {
    for (const Elf64_Shdr& section : object_->sections) {
      if (section.sh_type != SHT_SYMTAB) continue;
      if (!object_->symbols.empty()) return fail("it has two symbol tables");
      if (section.sh_link >= object_->sections.size() ||
          object_->sections[section.sh_link].sh_type != SHT_STRTAB) {
        return fail("its symbols have no names");
      }
      object_->symbols.resize(section.sh_size / sizeof(Elf64_Sym));
      std::memcpy(object_->symbols.data(), bytes_ + section.sh_offset,
                  object_->symbols.size() * sizeof(Elf64_Sym));
      for (const Elf64_Sym& symbol : object_->symbols) {
        if (!add_name(object_->sections[section.sh_link], symbol.st_name) || !check_place(symbol))
          return false;
      }
    }
    return true;
  }

  bool add_name(const Elf64_Shdr& names, uint32_t offset) {
    if (offset >= names.sh_size) {
      if (offset != 0) return fail("a symbol's name lies outside of the object");
      object_->symbol_names.emplace_back();
      return true;
    }
    const char* text = bytes_ + names.sh_offset + offset;
    const void* end = std::memchr(text, 0, names.sh_size - offset);
    if (end == nullptr) return fail("a symbol's name has no end");
    object_->symbol_names.emplace_back(text, static_cast<size_t>(static_cast<const char*>(end) - text));
    return true;
  }

  bool check_place(const Elf64_Sym& symbol) {
    const uint16_t index = symbol.st_shndx;
    if (index == SHN_UNDEF || index == SHN_ABS) return true;
    if (index >= object_->sections.size()) return fail("a symbol is in a section that the object lacks");
    if (symbol.st_value > object_->sections[index].sh_size)
      return fail("a symbol lies outside of its section");
    return true;
  }

  bool read_relocations() {
    for (const Elf64_Shdr& section : object_->sections) {
      if (section.sh_type != SHT_RELA && section.sh_type != SHT_REL) continue;
      if (section.sh_info >= object_->sections.size())
        return fail("relocations are for a section that it lacks");
      if (!object_->is_loaded(section.sh_info)) continue;
      if (section.sh_type == SHT_REL) return fail("it has relocations without addends");
      if (object_->sections[section.sh_info].sh_type == SHT_NOBITS)
        return fail("relocations are for a section without bytes");
      ElfRelocations found;
      found.target = section.sh_info;
      found.entries.resize(section.sh_size / sizeof(Elf64_Rela));
      std::memcpy(found.entries.data(), bytes_ + section.sh_offset,
                  found.entries.size() * sizeof(Elf64_Rela));
      const uint64_t bytes = object_->sections[found.target].sh_size;
      for (const Elf64_Rela& one : found.entries) {
        if (ELF64_R_SYM(one.r_info) >= object_->symbols.size())
          return fail("a relocation names a symbol that it lacks");
        if (one.r_offset > bytes || bytes - one.r_offset < sizeof(uint32_t))
          return fail("a relocation lies outside of its section");
      }
      object_->relocations.push_back(std::move(found));
    }
    return true;
  }

  const char* bytes_;
  size_t size_;
  ElfObject* object_;
  std::string* error_;
  Elf64_Ehdr header_{};
};

}  // namespace

uint16_t host_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

bool read_elf_object(const char* bytes, size_t size, ElfObject* object, std::string* error) {
  return Reader(bytes, size, object, error).read();
}

}  // namespace weft
