// SPDX-License-Identifier: Apache-2.0
//
// Services of the interpreter that the runtime uses: running without its lock, describing its objects, giving
// memory. The extension answers with Python (python/interpreter.cpp); an exported library has none
// (exported/no_interpreter.cpp). cpu/interrupt.h, launch_hooks.h and launch_memory.h are answered there, too.
#ifndef WEFT_RUNTIME_INTERPRETER_H_
#define WEFT_RUNTIME_INTERPRETER_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>
#include <weft/runtime_table.h>

#include <string>

#include "driver/launch/launch_scratch.h"

namespace weft {

// Releases the GIL for the guard's life if this thread holds it; callers may have no Python.
class WithoutGil {
 public:
  WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil();

  bool has_released() const { return saved_ != nullptr; }

 private:
  void* saved_;  // the thread's state, or nullptr
};

// The text of a kTVMFFIOpaquePyObject in messages: "a Python object of type C".
std::string opaque_object_text(const TVMFFIAny& value);

// Memory of the calling context's own allocator, its address in `*slot`, and what keeps it alive in
// `*keeper`, owned by the caller; both nullptr if there is no such allocator here. 0, or -1 with the FFI
// error set.
int32_t take_from_allocator(const weft_scratch& wanted, int64_t bytes, const ScratchPlace& place, void** slot,
                            void** keeper);
// Any thread.
void give_back_to_allocator(void* keeper);

// Memory of the library whose tensors this thread's call got (torch's caching allocator), in `*lent`, owned
// by the caller, whose deleter may run on this thread only; nullptr unless the library has an allocator and
// `place.stream` is its current stream, in whose order it allocates and reuses. 0, or -1 with the FFI error
// set.
int32_t take_from_library(int64_t bytes, const ScratchPlace& place, DLManagedTensorVersioned** lent);

}  // namespace weft

#endif  // WEFT_RUNTIME_INTERPRETER_H_
