// SPDX-License-Identifier: Apache-2.0
//
// Opens libcuda, fetches each function in its version from the table, and initializes it.
#include "driver/library/driver_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstring>
#include <mutex>
#include <new>

#include "driver/devices/devices.h"
#include "driver/library/driver_log.h"

namespace weft {

using cuda::CUresult;

cuda::DriverFunctions g_driver_functions{};
std::atomic<bool> g_driver_ready{false};

namespace {

constexpr const char* kDefaultPath = "libcuda.so.1";
constexpr const char* kInstallHint =
    "install an NVIDIA driver, version 12.0 or newer (R525), or name the library with WEFT_LIBCUDA; "
    "the cpu target needs no driver";

using GetProcAddress = CUresult (*)(const char* symbol, void** function, int version, uint64_t flags,
                                    int32_t* status);

// State of opening. A forked child gets a new mutex, since the thread that held the old one does not exist
// there.
struct Loader {
  std::mutex mutex;
  std::string path;         // empty: the default
  std::string opened_path;  // the open library
  void* handle = nullptr;
  int version = 0;
};

std::atomic<bool> g_forked{false};

void after_fork_in_child();

// Made on first use, with the fork handler: a child may be forked while another thread holds the mutex.
Loader& loader() {
  static Loader* only = [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    return new Loader;  // never destroyed: threads may still call at exit
  }();
  return *only;
}

void after_fork_in_child() {
  if (g_driver_ready.exchange(false)) g_forked.store(true);
  new (&loader().mutex) std::mutex;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool too_old(int version, const std::string& path, DriverError* error) {
  std::string found =
      version == 0 ? "is too old to report its version" : "is version " + version_text(version);
  return error->unusable("the CUDA driver " + path + " " + found +
                         ", weft needs 12.0 or newer; update the NVIDIA driver (R525 or newer)");
}

// One function in the given version; NULL if this driver does not have it.
void* find_function(GetProcAddress get, const char* name, int needed, int version) {
  if (version < needed) return nullptr;
  void* function = nullptr;
  int32_t status = 0;
  CUresult result = get(name, &function, needed, cuda::CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  return result == cuda::CUDA_SUCCESS && status == 0 ? function : nullptr;
}

// Fills the table, or fails with the missing function's name. Optional rows may stay NULL.
bool fill_table(void* handle, int version, const std::string& path, cuda::DriverFunctions* table,
                DriverError* error) {
  auto get = reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
  if (version < cuda::kMinimumDriver || get == nullptr) return too_old(version, path, error);
#define WEFT_ROW(name, needed, parameters)                                                           \
  table->name = reinterpret_cast<decltype(table->name)>(find_function(get, #name, needed, version)); \
  if (table->name == nullptr && needed <= cuda::kMinimumDriver) {                                    \
    return error->unusable("the CUDA driver " + path + " (" + version_text(version) +                \
                           ") has no function " #name "; reinstall the NVIDIA driver");              \
  }
  WEFT_DRIVER_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
  return true;
}

const char* init_explanation(CUresult result) {
  switch (result) {
    case cuda::CUDA_ERROR_NO_DEVICE:
      return "the driver sees no device: is there a GPU, and does CUDA_VISIBLE_DEVICES leave one visible?";
    case cuda::CUDA_ERROR_STUB_LIBRARY:
      return "this is the stub library of a CUDA toolkit, not a driver; take it off the library path";
    case cuda::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "the kernel module and libcuda are of different versions; restart the machine after an update";
    case cuda::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "a forward-compatibility libcuda is on the library path, and this device does not support it";
    case cuda::CUDA_ERROR_NOT_INITIALIZED:
      return "CUDA was initialized before this process was forked; start workers with the spawn method";
    default:
      return "";
  }
}

// Opens and initializes with the lock held. Everything is checked before anything is published.
bool open_locked(Loader* self, DriverError* error) {
  const std::string path = self->path.empty() ? kDefaultPath : self->path;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return error->unusable("cannot open the CUDA driver: " + std::string(reason ? reason : path) + "; " +
                           kInstallHint);
  }
  int version = 0;
  auto get_version = reinterpret_cast<CUresult (*)(int*)>(dlsym(handle, "cuDriverGetVersion"));
  if (get_version == nullptr) {
    dlclose(handle);
    return error->unusable(path + " is not a CUDA driver: it has no function cuDriverGetVersion; " +
                           kInstallHint);
  }
  if (get_version(&version) != cuda::CUDA_SUCCESS) version = 0;
  cuda::DriverFunctions table{};
  if (!fill_table(handle, version, path, &table, error)) {
    dlclose(handle);
    return false;
  }
  g_driver_functions = table;
  self->handle = handle;
  self->opened_path = path;
  self->version = version;
  CUresult result = table.cuInit(0);
  if (result != cuda::CUDA_SUCCESS) {
    return error->cuda(result, "cuInit", "initializing the CUDA driver", init_explanation(result));
  }
  listen_to_driver_log(table);
  return list_devices(error);
}

}  // namespace

bool open_driver(DriverError* error) {
  if (g_forked.load()) {
    return error->unusable(
        "this process was forked after CUDA was initialized, and a forked child cannot use it; start workers "
        "with multiprocessing's \"spawn\" method, or fork before the first use of a GPU");
  }
  Loader& self = loader();
  std::lock_guard<std::mutex> lock(self.mutex);
  if (driver_is_ready()) return true;
  if (!open_locked(&self, error)) return false;
  g_driver_ready.store(true, std::memory_order_release);
  return true;
}

bool set_driver_path(const std::string& path, DriverError* error) {
  Loader& self = loader();
  std::lock_guard<std::mutex> lock(self.mutex);
  const std::string wanted = path.empty() ? kDefaultPath : path;
  if (driver_is_ready() && wanted != self.opened_path) {
    return error->runtime("the CUDA driver " + self.opened_path + " is in use; " + wanted +
                          " cannot take its place in this process");
  }
  self.path = path;
  return true;
}

bool driver_was_forked() { return g_forked.load(); }

int driver_version() { return loader().version; }

}  // namespace weft
