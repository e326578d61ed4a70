// SPDX-License-Identifier: Apache-2.0
//
// The runtime's questions where there is no interpreter to ask: no lock, no signals of Python, no allocator,
// no hooks, no profiler.
#include "cpu/interrupt.h"
#include "runtime/interpreter.h"
#include "runtime/launch/launch_hooks.h"
#include "runtime/launch/launch_memory.h"

namespace weft {

WithoutGil::WithoutGil() : saved_(nullptr) {}
WithoutGil::~WithoutGil() = default;

std::string opaque_object_text(const TVMFFIAny&) { return "an object of another language"; }

int32_t take_from_allocator(const weft_scratch&, int64_t, const ScratchPlace&, void**, void** keeper) {
  *keeper = nullptr;
  return 0;
}

void give_back_to_allocator(void*) {}

int32_t take_from_library(int64_t, const ScratchPlace&, DLManagedTensorVersioned** lent) {
  *lent = nullptr;
  return 0;
}

CpuCall::CpuCall() : outer_(nullptr) {}
CpuCall::~CpuCall() = default;
void CpuCall::release_gil() {}
bool was_interrupted() { return false; }
bool signal_raised() { return false; }

std::atomic<bool> g_has_launch_hooks{false};
std::atomic<bool> g_has_launch_observer{false};

int32_t launch_between_hooks(const LaunchFacts&, int32_t (*perform)(void* data), void* data) {
  return perform(data);
}

int32_t launch_memory(weft_call_frame*, void*, const char*, const char*, void** memory, int64_t* words) {
  *memory = nullptr;
  *words = 0;
  return 0;
}

}  // namespace weft
