// SPDX-License-Identifier: Apache-2.0
//
// A driver library that hands everything to the real one and reads the clock around what a launch asks of it.
// benchmarks/launch_stages.py builds it and tells weft to open it.
#include <dlfcn.h>

#include <chrono>
#include <cstring>

#include "driver/library/cuda_abi.h"

using namespace weft::cuda;

namespace {

using Clock = std::chrono::steady_clock;
using Launch = CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**);
using GetContext = CUresult (*)(CUcontext*);
using GetProcAddress = CUresult (*)(const char*, void**, int, uint64_t, int32_t*);

// Nanoseconds at which a launch's calls began and ended.
struct Record {
  int64_t context[2];
  int64_t launch[2];
};

void* g_library = nullptr;
Launch g_launch = nullptr;
GetContext g_context = nullptr;
Record* g_records = nullptr;  // the caller's, with room for g_most
int g_most = 0;
int g_used = 0;

int64_t now() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

CUresult timed_context(CUcontext* context) {
  if (g_used >= g_most) return g_context(context);
  int64_t* times = g_records[g_used].context;
  times[0] = now();
  const CUresult result = g_context(context);
  times[1] = now();
  return result;
}

CUresult timed_launch(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (g_used >= g_most) return g_launch(config, function, parameters, extra);
  int64_t* times = g_records[g_used].launch;
  times[0] = now();
  const CUresult result = g_launch(config, function, parameters, extra);
  times[1] = now();
  ++g_used;
  return result;
}

}  // namespace

// Before weft opens this library: the real one. Returns 0, or -1 where there is none.
extern "C" int use_driver(const char* path) {
  g_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return g_library == nullptr ? -1 : 0;
}

extern "C" void start_records(void* records, int most) {
  g_records = static_cast<Record*>(records);
  g_used = 0;
  g_most = most;
}

// How many launches there were.
extern "C" int stop_records() {
  g_most = 0;
  return g_used;
}

extern "C" CUresult cuDriverGetVersion(int* version) {
  return reinterpret_cast<CUresult (*)(int*)>(dlsym(g_library, "cuDriverGetVersion"))(version);
}

extern "C" CUresult cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                                        int32_t* status) {
  auto get = reinterpret_cast<GetProcAddress>(dlsym(g_library, "cuGetProcAddress_v2"));
  const CUresult result = get(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
  if (std::strcmp(name, "cuLaunchKernelEx") == 0) {
    g_launch = reinterpret_cast<Launch>(*function);
    *function = reinterpret_cast<void*>(timed_launch);
  } else if (std::strcmp(name, "cuCtxGetCurrent") == 0) {
    g_context = reinterpret_cast<GetContext>(*function);
    *function = reinterpret_cast<void*>(timed_context);
  }
  return result;
}
