// SPDX-License-Identifier: Apache-2.0
//
// The extents of the three containers of device code.
#include "driver/devices/device_image.h"

#include <elf.h>

#include <cstring>

#include "driver/library/driver_library.h"

namespace weft {
namespace {

// A fatbin begins with a magic, a version, the size of this header and that of the rest.
struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t content_bytes;
};
constexpr uint32_t kFatbinMagic = 0xBA55ED50;

bool truncated(const std::string& code, const std::string& what, const char* part, uint64_t end,
               DriverError* error) {
  return error->value("the device code of " + what + " is truncated: its " + part + " ends at byte " +
                      std::to_string(end) + ", received " + std::to_string(code.size()) + " bytes");
}

// The end of `count` items of `bytes` at `offset`; the largest number on overflow.
uint64_t end_of(uint64_t offset, uint64_t count, uint64_t bytes) {
  uint64_t size = 0, end = 0;
  if (__builtin_mul_overflow(count, bytes, &size) || __builtin_add_overflow(offset, size, &end))
    return UINT64_MAX;
  return end;
}

bool check_elf(const std::string& code, const std::string& what, DriverError* error) {
  Elf64_Ehdr header;
  if (code.size() < sizeof(header)) return truncated(code, what, "ELF header", sizeof(header), error);
  memcpy(&header, code.data(), sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA) {
    return error->value("the device code of " + what + " is an ELF file, but not for CUDA devices (machine " +
                        std::to_string(header.e_machine) + ", expected " + std::to_string(EM_CUDA) + ")");
  }
  if ((header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      header.e_shstrndx >= header.e_shnum) {
    return error->value("the device code of " + what +
                        " is damaged: its ELF header does not describe its tables");
  }
  const uint64_t segments = end_of(header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr));
  if (segments > code.size()) return truncated(code, what, "segment table", segments, error);
  const uint64_t sections = end_of(header.e_shoff, header.e_shnum, sizeof(Elf64_Shdr));
  if (sections > code.size()) return truncated(code, what, "section table", sections, error);
  for (uint64_t index = 0; index < header.e_shnum; ++index) {
    Elf64_Shdr section;
    memcpy(&section, code.data() + header.e_shoff + index * sizeof(section), sizeof(section));
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    const uint64_t end = end_of(section.sh_offset, 1, section.sh_size);
    if (end > code.size()) return truncated(code, what, "section", end, error);
  }
  return true;
}

bool is_ptx(const std::string& code) {
  return code.find(".version") != std::string::npos && code.find(".target") != std::string::npos;
}

}  // namespace

bool check_device_image(const std::string& code, const std::string& what, DriverError* error) {
  if (code.compare(0, SELFMAG, ELFMAG) == 0) return check_elf(code, what, error);
  FatbinHeader header{};
  memcpy(&header, code.data(), code.size() < sizeof(header) ? code.size() : sizeof(header));
  if (header.magic == kFatbinMagic) {
    const uint64_t end = end_of(header.header_bytes, 1, header.content_bytes);
    return end <= code.size() || truncated(code, what, "content", end, error);
  }
  if (is_ptx(code)) return true;  // kept with a zero after it
  return error->value("the device code of " + what + " is neither a cubin nor a fatbin nor PTX: received " +
                      std::to_string(code.size()) + " bytes");
}

std::string explain_refused_ptx(cuda::CUresult result, const std::string& architecture) {
  if (result == cuda::CUDA_ERROR_INVALID_PTX) {
    return "the driver cannot assemble this PTX for " + architecture +
           ": is it whole, and made for this architecture or an older one?";
  }
  if (result != cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION) return {};
  const int version = driver_version();
  return "the PTX is newer than the driver, which knows CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) + "; update the driver, or make the PTX with an older toolkit";
}

std::string explain_invalid_image(const std::string& code, const std::string& architecture) {
  const std::string bytes = "these " + std::to_string(code.size()) + " bytes are ";
  if (is_ptx(code)) {
    return bytes + "PTX, which this driver does not assemble for " + architecture +
           "; load a cubin for that architecture instead";
  }
  return bytes + "not a whole cubin for " + architecture;
}

}  // namespace weft
