// SPDX-License-Identifier: Apache-2.0
//
// Places an object's sections side by side, so that everything is within 2 GB of everything, and fills in
// addresses.
#include "runtime/linker/linked_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "runtime/linker/relocate.h"

namespace weft {
namespace {

enum Group { kCode, kConstants, kRelocated, kData, kGroups };

constexpr int kProtections[kGroups] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ, PROT_READ | PROT_WRITE};

uint64_t round_up(uint64_t value, uint64_t alignment) {
  return alignment < 2 ? value : (value + alignment - 1) & ~(alignment - 1);
}

// The process's symbol of a name, or NULL.
void* find_in_process(const char* name) {
  if (void* found = dlsym(RTLD_DEFAULT, name)) return found;
  static void* const mathematics = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);  // stays open
  return mathematics == nullptr ? nullptr : dlsym(mathematics, name);
}

}  // namespace

// Links one object; lives on the stack.
class Linker {
 public:
  Linker(const ElfObject& object, LinkedObject* linked, std::string* error)
      : object_(object), linked_(linked), error_(error) {}

  bool link() {
    return find_indirections() && place_sections() && find_symbols() && relocate_all() && protect();
  }

  // Where each section lies; NULL for those that are not loaded.
  const std::vector<char*>& places() const { return places_; }

 private:
  bool fail(const std::string& what) {
    *error_ = what;
    return false;
  }

  bool fail_with_errno(const char* call) {
    return fail(std::string(call) + " failed: " + std::strerror(errno));
  }

  // Numbers the symbols that need a slot or a stub; a stub reads a slot.
  bool find_indirections() {
    for (const ElfRelocations& group : object_.relocations) {
      for (const Elf64_Rela& one : group.entries) {
        const auto symbol = static_cast<uint32_t>(ELF64_R_SYM(one.r_info));
        const auto type = static_cast<uint32_t>(ELF64_R_TYPE(one.r_info));
        const Indirection indirection = indirection_of(host_machine(), type);
        if (indirection == Indirection::kUnknown)
          return fail("the linker does not know relocation " + std::to_string(type));
        const bool is_stub = indirection == Indirection::kStub && is_undefined(symbol);
        if (is_stub) stubs_.emplace(symbol, stubs_.size());
        if (is_stub || indirection == Indirection::kSlot) slots_.emplace(symbol, slots_.size());
      }
    }
    return true;
  }

  bool is_undefined(uint32_t symbol) const { return object_.symbols[symbol].st_shndx == SHN_UNDEF; }

  Group group_of(const Elf64_Shdr& section, const std::string& name) const {
    if ((section.sh_flags & SHF_EXECINSTR) != 0) return kCode;
    if ((section.sh_flags & SHF_WRITE) == 0) return kConstants;
    return name.rfind(".data.rel.ro", 0) == 0 ? kRelocated : kData;
  }

  std::string section_name(const Elf64_Shdr& section) const {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(object_.bytes);
    uint16_t names = 0;
    std::memcpy(&names, &header->e_shstrndx, sizeof(names));
    if (names >= object_.sections.size() || section.sh_name >= object_.sections[names].sh_size) return {};
    const Elf64_Shdr& table = object_.sections[names];
    const char* text = object_.bytes + table.sh_offset + section.sh_name;
    return {text, strnlen(text, table.sh_size - section.sh_name)};
  }

  bool place_sections() {
    std::vector<uint64_t> offsets(object_.sections.size());
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint64_t end = 0;
    for (int group = 0; group < kGroups; ++group) {
      starts_[group] = end;
      for (size_t index = 0; index < object_.sections.size(); ++index) {
        const Elf64_Shdr& section = object_.sections[index];
        if (!object_.is_loaded(static_cast<uint32_t>(index)) ||
            group_of(section, section_name(section)) != group)
          continue;
        offsets[index] = end = round_up(end, section.sh_addralign);
        end += section.sh_size;
      }
      if (group == kCode) end = (stub_offset_ = round_up(end, kStubBytes)) + stubs_.size() * kStubBytes;
      if (group == kRelocated)
        end = (slot_offset_ = round_up(end, sizeof(uint64_t))) + slots_.size() * sizeof(uint64_t);
      end = round_up(end, page);
    }
    starts_[kGroups] = end;
    if (end == 0) return fail("it has no code");
    if (end > INT32_MAX) return fail("it needs 2 GB or more of memory");
    void* memory = mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail_with_errno("mmap");
    linked_->memory_ = static_cast<char*>(memory);
    linked_->bytes_ = end;
    places_.resize(object_.sections.size());
    for (size_t index = 0; index < object_.sections.size(); ++index) {
      const Elf64_Shdr& section = object_.sections[index];
      if (!object_.is_loaded(static_cast<uint32_t>(index))) continue;
      places_[index] = linked_->memory_ + offsets[index];
      if (section.sh_type != SHT_NOBITS)
        std::memcpy(places_[index], object_.bytes + section.sh_offset, section.sh_size);
    }
    return true;
  }

  bool find_symbols() {
    addresses_.resize(object_.symbols.size());
    for (size_t index = 0; index < object_.symbols.size(); ++index) {
      const Elf64_Sym& symbol = object_.symbols[index];
      const std::string& name = object_.symbol_names[index];
      if (symbol.st_shndx == SHN_ABS) {
        addresses_[index] = symbol.st_value;
      } else if (symbol.st_shndx != SHN_UNDEF) {
        char* place = places_[symbol.st_shndx];
        if (place == nullptr) continue;  // of debug information
        addresses_[index] = reinterpret_cast<uint64_t>(place + symbol.st_value);
        if (ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)
          linked_->exports_.push_back({name, place + symbol.st_value});
      } else if (index != 0) {
        void* found = find_in_process(name.c_str());
        if (found == nullptr && ELF64_ST_BIND(symbol.st_info) != STB_WEAK) {
          return fail("neither this process nor libm has the symbol '" + name + "'");
        }
        addresses_[index] = reinterpret_cast<uint64_t>(found);
      }
    }
    for (const auto& [symbol, number] : slots_) {
      std::memcpy(linked_->memory_ + slot_offset_ + number * sizeof(uint64_t), &addresses_[symbol],
                  sizeof(uint64_t));
    }
    for (const auto& [symbol, number] : stubs_) {
      write_stub(host_machine(), linked_->memory_ + stub_offset_ + number * kStubBytes, slot_of(symbol));
    }
    return true;
  }

  uint64_t slot_of(uint32_t symbol) const {
    return reinterpret_cast<uint64_t>(linked_->memory_ + slot_offset_ + slots_.at(symbol) * sizeof(uint64_t));
  }

  uint64_t value_for(uint32_t symbol, Indirection indirection) const {
    if (indirection == Indirection::kSlot) return slot_of(symbol);
    if (indirection == Indirection::kNone || !is_undefined(symbol)) return addresses_[symbol];
    return reinterpret_cast<uint64_t>(linked_->memory_ + stub_offset_ + stubs_.at(symbol) * kStubBytes);
  }

  bool relocate_all() {
    for (const ElfRelocations& group : object_.relocations) {
      const uint64_t bytes = object_.sections[group.target].sh_size;
      for (const Elf64_Rela& one : group.entries) {
        const auto type = static_cast<uint32_t>(ELF64_R_TYPE(one.r_info));
        const uint64_t value =
            value_for(static_cast<uint32_t>(ELF64_R_SYM(one.r_info)), indirection_of(host_machine(), type));
        if (!relocate(host_machine(), type, places_[group.target] + one.r_offset, bytes - one.r_offset, value,
                      one.r_addend, error_)) {
          return false;
        }
      }
    }
    return true;
  }

  bool protect() {
    char* code = linked_->memory_;
    __builtin___clear_cache(code, code + starts_[kCode + 1]);
    for (int group = 0; group < kGroups; ++group) {
      const uint64_t bytes = starts_[group + 1] - starts_[group];
      if (bytes != 0 && mprotect(code + starts_[group], bytes, kProtections[group]) != 0) {
        return fail_with_errno("mprotect");
      }
    }
    return true;
  }

  const ElfObject& object_;
  LinkedObject* linked_;
  std::string* error_;
  std::unordered_map<uint32_t, uint64_t> slots_;  // symbol → number
  std::unordered_map<uint32_t, uint64_t> stubs_;
  uint64_t starts_[kGroups + 1] = {};
  uint64_t stub_offset_ = 0;
  uint64_t slot_offset_ = 0;
  std::vector<char*> places_;
  std::vector<uint64_t> addresses_;  // of each symbol
};

std::unique_ptr<LinkedObject> LinkedObject::make(const char* bytes, size_t size, bool is_reported,
                                                 std::string* error) {
  ElfObject object;
  if (!read_elf_object(bytes, size, &object, error)) return nullptr;
  std::unique_ptr<LinkedObject> linked(new LinkedObject);
  Linker linker(object, linked.get(), error);
  if (!linker.link()) return nullptr;
  if (is_reported) linked->debugger_.report(object, size, linker.places());
  return linked;
}

LinkedObject::~LinkedObject() {
  debugger_.withdraw();
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

void* LinkedObject::find(const std::string& name) const {
  for (const Export& one : exports_) {
    if (one.name == name) return one.address;
  }
  return nullptr;
}

}  // namespace weft
