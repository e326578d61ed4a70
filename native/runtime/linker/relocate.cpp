// SPDX-License-Identifier: Apache-2.0
//
// The relocations that LLVM emits for x86-64 and aarch64 in position-independent code of the small model.
#include "runtime/linker/relocate.h"

#include <elf.h>

#include <cstring>

namespace weft {
namespace {

uint32_t read32(const char* place) {
  uint32_t word = 0;
  std::memcpy(&word, place, sizeof(word));
  return word;
}

void write32(char* place, uint32_t word) { std::memcpy(place, &word, sizeof(word)); }

bool too_far(uint32_t type, std::string* error) {
  *error = "relocation " + std::to_string(type) + " does not reach its target";
  return false;
}

bool too_short(uint32_t type, std::string* error) {
  *error = "relocation " + std::to_string(type) + " lies outside of its section";
  return false;
}

bool write_word64(uint32_t type, char* place, uint64_t room, uint64_t value, std::string* error) {
  if (room < sizeof(value)) return too_short(type, error);
  std::memcpy(place, &value, sizeof(value));
  return true;
}

bool write_signed32(uint32_t type, char* place, int64_t value, std::string* error) {
  if (value < INT32_MIN || value > INT32_MAX) return too_far(type, error);
  write32(place, static_cast<uint32_t>(value));
  return true;
}

bool relocate_x86_64(uint32_t type, char* place, uint64_t room, uint64_t value, int64_t addend,
                     std::string* error) {
  const uint64_t target = value + static_cast<uint64_t>(addend);
  const auto distance = static_cast<int64_t>(target - reinterpret_cast<uint64_t>(place));
  switch (type) {
    case R_X86_64_NONE:
      return true;
    case R_X86_64_64:
      return write_word64(type, place, room, target, error);
    case R_X86_64_PC64:
      return write_word64(type, place, room, static_cast<uint64_t>(distance), error);
    case R_X86_64_32:
      if (target > UINT32_MAX) return too_far(type, error);
      write32(place, static_cast<uint32_t>(target));
      return true;
    case R_X86_64_32S:
      return write_signed32(type, place, static_cast<int64_t>(target), error);
    default:  // PC32, PLT32, GOTPCREL and its two forms that a linker may relax
      return write_signed32(type, place, distance, error);
  }
}

// The immediate of ADRP, in pages: two low bits at 29, nineteen at 5.
bool write_page(uint32_t type, char* place, uint64_t target, std::string* error) {
  constexpr uint64_t kPage = 0xFFF;
  const auto pages =
      static_cast<int64_t>((target & ~kPage) - (reinterpret_cast<uint64_t>(place) & ~kPage)) >> 12;
  if (pages < -(1 << 20) || pages >= 1 << 20) return too_far(type, error);
  const auto bits = static_cast<uint32_t>(pages);
  write32(place, (read32(place) & 0x9F00001F) | ((bits & 3) << 29) | ((bits >> 2 & 0x7FFFF) << 5));
  return true;
}

// The twelve low bits of an address, in units of the access.
bool write_low12(uint32_t type, char* place, uint64_t target, uint32_t shift, std::string* error) {
  if ((target & ((1U << shift) - 1)) != 0) return too_far(type, error);
  const auto bits = static_cast<uint32_t>((target & 0xFFF) >> shift);
  write32(place, (read32(place) & 0xFFC003FF) | (bits << 10));
  return true;
}

bool relocate_aarch64(uint32_t type, char* place, uint64_t room, uint64_t value, int64_t addend,
                      std::string* error) {
  const uint64_t target = value + static_cast<uint64_t>(addend);
  const auto distance = static_cast<int64_t>(target - reinterpret_cast<uint64_t>(place));
  switch (type) {
    case R_AARCH64_NONE:
      return true;
    case R_AARCH64_ABS64:
      return write_word64(type, place, room, target, error);
    case R_AARCH64_PREL64:
      return write_word64(type, place, room, static_cast<uint64_t>(distance), error);
    case R_AARCH64_PREL32:
      return write_signed32(type, place, distance, error);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (distance < -(1 << 27) || distance >= 1 << 27 || (distance & 3) != 0) return too_far(type, error);
      write32(place, (read32(place) & 0xFC000000) | (static_cast<uint32_t>(distance >> 2) & 0x03FFFFFF));
      return true;
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_GOT_PAGE:
      return write_page(type, place, target, error);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return write_low12(type, place, target, 1, error);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return write_low12(type, place, target, 2, error);
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LD64_GOT_LO12_NC:
      return write_low12(type, place, target, 3, error);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return write_low12(type, place, target, 4, error);
    default:  // ADD_ABS_LO12_NC, LDST8_ABS_LO12_NC
      return write_low12(type, place, target, 0, error);
  }
}

Indirection indirection_x86_64(uint32_t type) {
  switch (type) {
    case R_X86_64_NONE:
    case R_X86_64_64:
    case R_X86_64_PC64:
    case R_X86_64_32:
    case R_X86_64_32S:
      return Indirection::kNone;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return Indirection::kStub;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return Indirection::kSlot;
    default:
      return Indirection::kUnknown;
  }
}

Indirection indirection_aarch64(uint32_t type) {
  switch (type) {
    case R_AARCH64_NONE:
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64:
    case R_AARCH64_PREL32:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return Indirection::kNone;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      return Indirection::kStub;
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC:
      return Indirection::kSlot;
    default:
      return Indirection::kUnknown;
  }
}

}  // namespace

Indirection indirection_of(uint16_t machine, uint32_t type) {
  return machine == EM_AARCH64 ? indirection_aarch64(type) : indirection_x86_64(type);
}

void write_stub(uint16_t machine, char* stub, uint64_t slot) {
  const auto start = reinterpret_cast<uint64_t>(stub);
  if (machine == EM_AARCH64) {
    // ldr x16, slot (a distance in words at bit 5); br x16
    const auto words = static_cast<uint32_t>(static_cast<int64_t>(slot - start) >> 2) & 0x7FFFF;
    write32(stub, 0x58000010 | words << 5);
    write32(stub + 4, 0xD61F0200);
    return;
  }
  // jmp *slot(%rip), six bytes; int3
  std::memset(stub, 0xCC, kStubBytes);
  stub[0] = static_cast<char>(0xFF);
  stub[1] = 0x25;
  write32(stub + 2, static_cast<uint32_t>(slot - (start + 6)));
}

bool relocate(uint16_t machine, uint32_t type, char* place, uint64_t room, uint64_t value, int64_t addend,
              std::string* error) {
  return machine == EM_AARCH64 ? relocate_aarch64(type, place, room, value, addend, error)
                               : relocate_x86_64(type, place, room, value, addend, error);
}

}  // namespace weft
