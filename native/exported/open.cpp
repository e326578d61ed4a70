// SPDX-License-Identifier: Apache-2.0
//
// States of exported functions, and the setup that the extension otherwise does in Python: libtvm_ffi's
// table, the driver's path, the number of threads.
#include <weft/exported.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cpu/pool.h"
#include "driver/devices/device_program.h"
#include "driver/library/driver_library.h"
#include "ffi_library.h"

namespace weft {
namespace {

// Linked, not opened: the library that loads this one has libtvm_ffi, or the loader finds it.
void prepare_ffi_library() {
  FfiLibrary library;
#define WEFT_ROW(member, symbol) library.member = &::symbol;
  WEFT_FFI_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
  library.is_open = true;
  g_ffi_library = library;
}

// A number in the environment; 0, which means the default, if there is none.
int32_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  const long number = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return number > 0 && number <= INT32_MAX ? static_cast<int32_t>(number) : 0;
}

void prepare_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    prepare_ffi_library();
    set_cpu_threads(number_of("WEFT_NUM_THREADS"));
    set_cpu_multiprocessors(number_of("WEFT_CPU_MULTIPROCESSORS"));
    set_cpu_max_clusters(number_of("WEFT_CPU_MAX_CLUSTERS"));
    if (const char* path = std::getenv("WEFT_LIBCUDA")) {
      DriverError ignored;  // nothing is open yet
      set_driver_path(path, &ignored);
    }
  });
}

// The first feature that this CPU lacks for a level of the x86-64 psABI; nullptr if it lacks none, and for
// other CPUs.
const char* missing_feature(const char* cpu) {
#if defined(__x86_64__)
  const int level = std::strncmp(cpu, "x86-64-v", 8) == 0 ? cpu[8] - '0' : 0;
  __builtin_cpu_init();
  if (level >= 2 && !__builtin_cpu_supports("sse4.2")) return "SSE4.2";
  if (level >= 3 && !__builtin_cpu_supports("avx2")) return "AVX2";
  if (level >= 3 && !__builtin_cpu_supports("fma")) return "FMA";
  if (level >= 3 && !__builtin_cpu_supports("bmi2")) return "BMI2";
  if (level >= 4 && !__builtin_cpu_supports("avx512bw")) return "AVX-512BW";
  if (level >= 4 && !__builtin_cpu_supports("avx512vl")) return "AVX-512VL";
#else
  (void)cpu;
#endif
  return nullptr;
}

// The table of the runtime that the code was generated for, or nullptr: rows are only ever appended, so an
// older object works with a newer runtime.
const weft_runtime_table* table_for(const weft_exported& function) {
  const weft_runtime_table* table = weft_get_runtime_table();
  return function.table_version <= table->version ? table : nullptr;
}

}  // namespace
}  // namespace weft

void weft_open_exported(const weft_exported* function, weft_state** slot) {
  weft::prepare_once();
  const weft_runtime_table* table = weft::table_for(*function);
  if (table == nullptr) {
    std::fprintf(stderr,
                 "weft: %s was exported by a newer weft than its libweft_runtime.a: link the newer one\n",
                 function->name);
    std::abort();
  }
  if (const char* missing = weft::missing_feature(function->cpu)) {
    std::fprintf(stderr, "weft: %s was exported for %s, and this CPU has no %s: calls will fail\n",
                 function->name, function->cpu, missing);
  }
  weft::DeviceProgram* program = nullptr;
  if (function->device_code_bytes != 0) {
    std::vector<std::string> kernels(function->kernels, function->kernels + function->kernel_count);
    std::string code(static_cast<const char*>(function->device_code),
                     static_cast<size_t>(function->device_code_bytes));
    program = new weft::DeviceProgram(std::move(code), std::move(kernels), function->name,
                                      function->architecture, "");
  }
  *slot = new weft_state{table, nullptr, program, -1, static_cast<int32_t>(function->load_policy)};
}
