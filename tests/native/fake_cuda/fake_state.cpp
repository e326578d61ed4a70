// SPDX-License-Identifier: Apache-2.0
//
// The shared state, the recorder, and the functions that tests call to arrange
// and to look.
#include "fake_state.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace fake {

using weft::cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED;
using weft::cuda::CUDA_ERROR_INVALID_CONTEXT;
using weft::cuda::CUDA_ERROR_INVALID_HANDLE;
using weft::cuda::CUDA_ERROR_NO_BINARY_FOR_GPU;
using weft::cuda::CUDA_ERROR_NOT_INITIALIZED;

State& state() {
  static State* only = new State;
  return *only;
}

Context*& current_context() {
  static thread_local Context* current = nullptr;
  return current;
}

int32_t& capture_mode() {
  static thread_local int32_t mode = 0;
  return mode;
}

bool disturbs_a_capture() {
  if (capture_mode() == weft::cuda::CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  for (Stream* stream : state().streams) {
    if (stream->capture != nullptr) return true;
  }
  return false;
}

Call::Call(const char* function, bool needs_init, const char* format, ...)
    : lock_(state().mutex), text_(function) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string details(static_cast<size_t>(vsnprintf(nullptr, 0, format, arguments)) + 1, 0);
  vsnprintf(details.data(), details.size(), format, again);
  va_end(again);
  va_end(arguments);
  details.pop_back();
  text_ += "(" + details + ")";
  State& all = state();
  all.counts[function] += 1;
  auto delay = all.delays.find(function);
  if (delay != all.delays.end()) usleep(static_cast<useconds_t>(delay->second));
  for (size_t index = 0; index < all.injections.size(); ++index) {
    Injection& injection = all.injections[index];
    if (injection.function != function || --injection.countdown > 0) continue;
    refused_ = injection.result;
    all.injections.erase(all.injections.begin() + static_cast<long>(index));
    return;
  }
  if (!needs_init) return;
  if (all.pid == 0 || all.pid != getpid()) refused_ = CUDA_ERROR_NOT_INITIALIZED;
  // After a kernel crashed, work in the context fails; asking which one is
  // current does not.
  const bool is_harmless = strncmp(function, "cuCtx", 5) == 0 && strcmp(function, "cuCtxSynchronize") != 0;
  if (refused_ == 0 && all.poison != 0 && !is_harmless) refused_ = all.poison;
}

CUresult Call::done(CUresult result) {
  if (result != 0 && state().log != nullptr && !state().log_text.empty()) {
    std::string text;
    text.swap(state().log_text);
    state().log(state().log_data, 0, text.data(), text.size());
  }
  state().calls.push_back(text_ + " -> " + std::to_string(result));
  return result;
}

Stream* as_stream(weft::cuda::CUstream stream) {
  auto* candidate = reinterpret_cast<Stream*>(stream);
  return state().streams.count(candidate) != 0 ? candidate : nullptr;
}

Context* context_of(weft::cuda::CUstream stream, CUresult* result) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) {
    Context* current = current_context();
    *result = current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : 0;
    if (current != nullptr && state().contexts.count(current) == 0) *result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return *result == 0 ? current : nullptr;
  }
  Stream* found = as_stream(stream);
  *result = found == nullptr ? CUDA_ERROR_INVALID_HANDLE : 0;
  if (found != nullptr && state().contexts.count(found->context) == 0)
    *result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return *result == 0 ? found->context : nullptr;
}

bool runs_on(const Image& image, const Device& device) {
  const int has = device.major * 10 + device.minor;
  if (image.is_specific) return image.architecture == has;
  return image.architecture / 10 == device.major && image.architecture <= has;
}

Function* function_in(void* handle, Context* context, CUresult* result) {
  *result = 0;
  auto* function = static_cast<Function*>(handle);
  if (state().functions.count(function) != 0) {
    if (function->context != context) *result = CUDA_ERROR_INVALID_HANDLE;
    return *result == 0 ? function : nullptr;
  }
  auto* kernel = static_cast<Kernel*>(handle);
  if (state().kernels.count(kernel) == 0) {
    *result = CUDA_ERROR_INVALID_HANDLE;
    return nullptr;
  }
  Function*& slot = kernel->functions[context];
  if (slot == nullptr) {
    if (!runs_on(kernel->library->image, state().devices[static_cast<size_t>(context->device)])) {
      *result = CUDA_ERROR_NO_BINARY_FOR_GPU;
      return nullptr;
    }
    slot = new Function{kernel->info, context, kernel, nullptr, {}};
    state().functions.insert(slot);
  }
  return slot;
}

const KernelInfo* Image::find(const char* name) const {
  for (const KernelInfo& kernel : kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

void enter_queue() {
  State& all = state();
  std::unique_lock<std::mutex> lock(all.queue_mutex);
  all.queue_changed.wait(lock, [&] { return all.queue_limit == 0 || all.queued < all.queue_limit; });
  if (all.queue_limit != 0) ++all.queued;
}

}  // namespace fake

// What tests call, through ctypes. None of it is recorded.
extern "C" {

using fake::CUdeviceptr;
using fake::state;

// Before cuInit: how many devices there are, and which driver version this is
// (12040 for 12.4).
void fake_cuda_configure(int devices, int version) {
  state().devices.assign(static_cast<size_t>(devices), fake::Device{});
  state().version = version;
}

void fake_cuda_set_architecture(int device, int major, int minor) {
  state().devices[static_cast<size_t>(device)].major = major;
  state().devices[static_cast<size_t>(device)].minor = minor;
}

// cuGetProcAddress will not find it.
void fake_cuda_lack(const char* function) { state().lacking.insert(function); }

// The nth call from now (1: the next) of the function returns `result` and does
// nothing.
void fake_cuda_fail(const char* function, int nth, int result) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().injections.push_back({function, nth, result});
}

void fake_cuda_forget_failures() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().injections.clear();
  state().poison = 0;
}

// A kernel crashed: every call in a context returns `result` from now on; 0
// heals.
void fake_cuda_poison(int result) { state().poison = result; }

// What the next call that fails writes into the driver's log.
void fake_cuda_log(const char* text) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().log_text = text;
}

void fake_cuda_delay(const char* function, int microseconds) { state().delays[function] = microseconds; }

// What is queued from now on waits once there is so much of it, until the next call of this. 0: never.
void fake_cuda_limit_queue(int limit) {
  std::lock_guard<std::mutex> lock(state().queue_mutex);
  state().queue_limit = limit;
  state().queued = 0;
  state().queue_changed.notify_all();
}

int fake_cuda_queued() {
  std::lock_guard<std::mutex> lock(state().queue_mutex);
  return state().queued;
}

// How often the function was called; all recorded calls for NULL.
int fake_cuda_count(const char* function) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (function == nullptr) return static_cast<int>(state().calls.size());
  auto found = state().counts.find(function);
  return found == state().counts.end() ? 0 : found->second;
}

// The call as text: cuCtxSetCurrent(0x55...) -> 0. Copied into `text`, cut at
// `size`; the length it has.
int fake_cuda_call(int index, char* text, int size) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const std::string& call = state().calls[static_cast<size_t>(index)];
  if (size > 0) {
    strncpy(text, call.c_str(), static_cast<size_t>(size));
    text[size - 1] = 0;
  }
  return static_cast<int>(call.size());
}

void fake_cuda_forget_calls() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().calls.clear();
  state().counts.clear();
}

// How many of a kind exist: library, module, function, stream, context,
// allocation, retain, graph, executable.
int fake_cuda_live(const char* kind) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const fake::State& all = state();
  const std::string name = kind;
  if (name == "library") return static_cast<int>(all.libraries.size());
  if (name == "module") return static_cast<int>(all.modules.size());
  if (name == "function") return static_cast<int>(all.functions.size());
  if (name == "stream") return static_cast<int>(all.streams.size());
  if (name == "context") return static_cast<int>(all.contexts.size());
  if (name == "event") return static_cast<int>(all.events.size());
  if (name == "allocation") return static_cast<int>(all.allocations.size());
  if (name == "pinned") return static_cast<int>(all.pinned.size());
  if (name == "retain") return all.retains;
  if (name == "graph") return static_cast<int>(all.graphs.size());
  if (name == "executable") return static_cast<int>(all.executables.size());
  return -1;
}

// The address of the variable that was asked for last.
CUdeviceptr fake_cuda_last_global() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().last_global;
}

// The address of the device memory that was allocated last.
CUdeviceptr fake_cuda_last_allocation() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().last_allocation;
}

// Launches of a kernel with this name run `run`, the kernel's CPU build, on the
// memory its pointers name. `scratch_bytes` may be NULL.
void fake_cuda_register_kernel(const char* name, weft_cpu_kernel run,
                               int64_t (*scratch_bytes)(const weft_runtime_table*, const weft_launch*),
                               const weft_runtime_table* table) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().cpu_kernels[name] = {run, scratch_bytes, table};
}

}  // extern "C"
