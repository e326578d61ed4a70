// SPDX-License-Identifier: Apache-2.0
//
// Relocations: the places in code and data that hold addresses.
//
// In: a place, where it will run, and the address that it names. Out: the bytes at the place. Sources: the
// psABI of x86-64, section 4.4; ELF for the Arm 64-bit Architecture, section 5.7.
#ifndef WEFT_RUNTIME_LINKER_RELOCATE_H_
#define WEFT_RUNTIME_LINKER_RELOCATE_H_

#include <cstdint>
#include <string>

namespace weft {

// Indirection that a relocation needs beside the symbol's own address.
enum class Indirection {
  kNone,
  kSlot,  // a word with the symbol's address (GOT)
  kStub,  // a jump to the symbol, since it may be far away (PLT)
  kUnknown,
};

// The indirection of a relocation type; `type` is ELF64_R_TYPE's.
Indirection indirection_of(uint16_t machine, uint32_t type);

// Bytes of one stub, on any machine.
constexpr uint64_t kStubBytes = 16;

// Writes a stub that jumps to the address in `slot`.
void write_stub(uint16_t machine, char* stub, uint64_t slot);

// Changes the bytes at `place`, which will run there.
//
// Args: `room`: bytes from there to the section's end; `value`: the address of the symbol, its slot or its
// stub; false with a sentence if the value does not fit.
bool relocate(uint16_t machine, uint32_t type, char* place, uint64_t room, uint64_t value, int64_t addend,
              std::string* error);

}  // namespace weft

#endif  // WEFT_RUNTIME_LINKER_RELOCATE_H_
