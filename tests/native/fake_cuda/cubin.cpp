// SPDX-License-Identifier: Apache-2.0
//
// Reads what a cubin says about its kernels: an ELF file with one .text, one
// .nv.info and perhaps one .nv.shared section per kernel. Every offset is
// checked, since tests feed it truncated files.
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "fake_state.h"

namespace fake {
namespace {

// Attributes of .nv.info sections: a format, a tag, and a 16-bit size or value.
constexpr uint8_t kFormatSized = 4;
constexpr uint8_t kMaxThreads = 0x05;
constexpr uint8_t kRequiredThreads = 0x10;
constexpr uint8_t kParameter = 0x17;
constexpr uint8_t kRegisterCount = 0x2f;
// In .nv.compat: 1 where the code is for one architecture only (sm_90a).
constexpr uint8_t kFormatByte = 2;
constexpr uint8_t kSpecific = 0x09;
// The driver keeps this much of each block's shared memory for itself on
// compute capability 8 and later.
constexpr int kReservedShared = 1024;

struct View {
  const uint8_t* data;
  size_t size;
};

template <typename T>
bool read(View view, size_t offset, T* value) {
  if (offset + sizeof(T) > view.size || offset + sizeof(T) < offset) return false;
  memcpy(value, view.data + offset, sizeof(T));
  return true;
}

// The driver is given no length: the ELF header's tables say how long the file
// is.
size_t file_size(const void* data) {
  Elf64_Ehdr header;
  memcpy(&header, data, sizeof(header));
  const size_t sections = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  const size_t segments = header.e_phoff + size_t{header.e_phnum} * header.e_phentsize;
  return std::max(sections, segments);
}

struct Section {
  std::string name;
  Elf64_Shdr header;
};

bool read_sections(View file, std::vector<Section>* sections) {
  Elf64_Ehdr header;
  if (!read(file, 0, &header) || header.e_shentsize != sizeof(Elf64_Shdr)) return false;
  std::vector<Elf64_Shdr> headers(header.e_shnum);
  for (size_t index = 0; index < headers.size(); ++index) {
    if (!read(file, header.e_shoff + index * header.e_shentsize, &headers[index])) return false;
    const Elf64_Shdr& section = headers[index];
    if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > file.size) return false;
  }
  if (header.e_shstrndx >= headers.size()) return false;
  const Elf64_Shdr& names = headers[header.e_shstrndx];
  for (const Elf64_Shdr& section : headers) {
    if (section.sh_name >= names.sh_size) return false;
    const char* name = reinterpret_cast<const char*>(file.data + names.sh_offset + section.sh_name);
    sections->push_back({std::string(name, strnlen(name, names.sh_size - section.sh_name)), section});
  }
  return true;
}

bool read_kernel_attributes(View info, KernelInfo* kernel) {
  size_t offset = 0;
  while (offset + 4 <= info.size) {
    const uint8_t format = info.data[offset];
    const uint8_t tag = info.data[offset + 1];
    uint16_t size = 0;
    if (!read(info, offset + 2, &size)) return false;
    offset += 4;
    if (format != kFormatSized) continue;
    if (offset + size > info.size) return false;
    if (tag == kParameter && size >= 12) {
      uint16_t ordinal = 0, place = 0;
      uint32_t packed = 0;
      read(info, offset + 4, &ordinal);
      read(info, offset + 6, &place);
      read(info, offset + 8, &packed);
      if (kernel->parameters.size() <= ordinal) kernel->parameters.resize(ordinal + size_t{1});
      kernel->parameters[ordinal] = {place, packed >> 18};
    }
    if ((tag == kMaxThreads || tag == kRequiredThreads) && size >= 12) {
      uint32_t threads[3] = {};
      for (size_t axis = 0; axis < 3; ++axis) read(info, offset + 4 * axis, &threads[axis]);
      kernel->max_threads = static_cast<int>(threads[0] * threads[1] * threads[2]);
    }
    offset += size;
  }
  return true;
}

void read_globals(View file, const std::vector<Section>& sections, Image* image) {
  View symbols{nullptr, 0}, names{nullptr, 0};
  for (const Section& section : sections) {
    const View bytes{file.data + section.header.sh_offset, section.header.sh_size};
    if (section.name == ".symtab") symbols = bytes;
    if (section.name == ".strtab") names = bytes;
  }
  Elf64_Sym entry;
  for (size_t offset = 0; read(symbols, offset, &entry); offset += sizeof(entry)) {
    if (ELF64_ST_TYPE(entry.st_info) != STT_OBJECT || entry.st_name >= names.size) continue;
    image->globals[reinterpret_cast<const char*>(names.data + entry.st_name)] = entry.st_size;
  }
}

// Register counts stand in the file's own .nv.info, by the kernel's symbol.
void read_registers(View file, const std::vector<Section>& sections, Image* image) {
  View info{nullptr, 0}, symbols{nullptr, 0}, names{nullptr, 0};
  for (const Section& section : sections) {
    const View bytes{file.data + section.header.sh_offset, section.header.sh_size};
    if (section.name == ".nv.info") info = bytes;
    if (section.name == ".symtab") symbols = bytes;
    if (section.name == ".strtab") names = bytes;
  }
  for (size_t offset = 0; offset + 12 <= info.size;) {
    uint16_t size = 0;
    read(info, offset + 2, &size);
    uint32_t symbol = 0, registers = 0;
    Elf64_Sym entry;
    if (info.data[offset + 1] == kRegisterCount && read(info, offset + 4, &symbol) &&
        read(info, offset + 8, &registers) && read(symbols, symbol * sizeof(entry), &entry) &&
        entry.st_name < names.size) {
      const char* name = reinterpret_cast<const char*>(names.data + entry.st_name);
      for (KernelInfo& kernel : image->kernels) {
        if (kernel.name == name) kernel.registers = static_cast<int>(registers);
      }
    }
    offset += 4 + (info.data[offset] == kFormatSized ? size : size_t{0});
  }
}

bool read_is_specific(View compat) {
  for (size_t offset = 0; offset + 4 <= compat.size;) {
    uint16_t value = 0;
    read(compat, offset + 2, &value);
    if (compat.data[offset] == kFormatByte && compat.data[offset + 1] == kSpecific) return value == 1;
    offset += 4 + (compat.data[offset] == kFormatSized ? value : size_t{0});
  }
  return false;
}

}  // namespace

bool parse_cubin(const void* data, Image* image) {
  if (data == nullptr || memcmp(data, ELFMAG, SELFMAG) != 0) return false;
  const View file{static_cast<const uint8_t*>(data), file_size(data)};
  std::vector<Section> sections;
  Elf64_Ehdr header;
  if (!read(file, 0, &header) || header.e_machine != EM_CUDA || !read_sections(file, &sections)) return false;
  // The architecture moved within e_flags with ABI version 8.
  const uint8_t abi = header.e_ident[EI_ABIVERSION];
  image->architecture = static_cast<int>(abi >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
  const std::string text = ".text.", info = ".nv.info.", shared = ".nv.shared.";
  for (const Section& section : sections) {
    if (section.name.compare(0, text.size(), text) == 0) {
      image->kernels.push_back({section.name.substr(text.size()), {}, 0, 1024, 0});
    }
  }
  for (const Section& section : sections) {
    const View bytes{file.data + section.header.sh_offset, section.header.sh_size};
    if (section.name == ".nv.compat") image->is_specific = read_is_specific(bytes);
    for (KernelInfo& kernel : image->kernels) {
      if (section.name == info + kernel.name && !read_kernel_attributes(bytes, &kernel)) return false;
      if (section.name == shared + kernel.name) {
        const int size = static_cast<int>(section.header.sh_size);
        kernel.static_shared = size > kReservedShared ? size - kReservedShared : 0;
      }
    }
  }
  read_registers(file, sections, image);
  read_globals(file, sections, image);
  return true;
}

}  // namespace fake
