// SPDX-License-Identifier: Apache-2.0
//
// A lock-free stack of handles; draining takes all of it.
#include "driver/devices/unload_queue.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <new>

#include "driver/devices/devices.h"
#include "driver/library/driver_library.h"

namespace weft {
namespace {

struct Entry {
  cuda::CUlibrary library;
  cuda::CUmodule module;
  cuda::CUdeviceptr memory;
  void* host_memory;
  cuda::CUcontext context;
  const char* name;
  Entry* next;
};

std::atomic<Entry*> g_first{nullptr};
std::atomic<int> g_length{0};

// True if an unload reports that the driver itself is gone, which is normal at the process's end.
bool is_shutting_down(cuda::CUresult result) {
  return result == cuda::CUDA_ERROR_DEINITIALIZED || result == cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void tell(const Entry& entry, const char* function, cuda::CUresult result) {
  if (result == cuda::CUDA_SUCCESS || is_shutting_down(result)) return;
  fprintf(stderr, "weft: unloading %s: %s returned %s (%d)\n", entry.name, function,
          result_name(result).c_str(), result);
}

void unload(const Entry& entry) {
  if (entry.library != nullptr) {
    tell(entry, "cuLibraryUnload", driver().cuLibraryUnload(entry.library));
  }
  if (entry.host_memory != nullptr) tell(entry, "cuMemFreeHost", driver().cuMemFreeHost(entry.host_memory));
  if (entry.module == nullptr && entry.memory == 0) return;
  // Both belong to their context, which is made current for the call. A destroyed context took them with it.
  DriverError error;
  ContextGuard guard;
  if (!guard.enter(entry.context, &error)) {
    if (error.code != cuda::CUDA_ERROR_INVALID_CONTEXT) tell(entry, error.function.c_str(), error.code);
    return;
  }
  if (entry.module != nullptr) tell(entry, "cuModuleUnload", driver().cuModuleUnload(entry.module));
  if (entry.memory != 0) tell(entry, "cuMemFree", driver().cuMemFree(entry.memory));
  if (!guard.leave(&error)) tell(entry, error.function.c_str(), error.code);
}

void push(const Entry& contents) {
  if (!driver_is_ready()) return;  // forked: these are the parent's
  Entry* entry = new (std::nothrow) Entry(contents);
  if (entry == nullptr) return;
  entry->next = g_first.load(std::memory_order_relaxed);
  while (!g_first.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  g_length.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void queue_unload(cuda::CUlibrary library, cuda::CUmodule module, cuda::CUcontext context, const char* name) {
  if (library != nullptr || module != nullptr) push({library, module, 0, nullptr, context, name, nullptr});
}

void queue_free(cuda::CUdeviceptr memory, cuda::CUcontext context) {
  if (memory != 0) push({nullptr, nullptr, memory, nullptr, context, "device memory", nullptr});
}

void queue_free_host(void* memory) { push({nullptr, nullptr, 0, memory, nullptr, "host memory", nullptr}); }

int drain_unload_queue() {
  if (g_first.load(std::memory_order_relaxed) == nullptr || !driver_is_ready()) return 0;
  std::unique_ptr<Entry> entry(g_first.exchange(nullptr, std::memory_order_acquire));
  const RelaxedCapture relaxed;
  int count = 0;
  while (entry != nullptr) {
    unload(*entry);
    entry.reset(entry->next);
    ++count;
  }
  g_length.fetch_sub(count, std::memory_order_relaxed);
  return count;
}

int unload_queue_length() { return g_length.load(std::memory_order_relaxed); }

}  // namespace weft
