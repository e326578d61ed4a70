// SPDX-License-Identifier: Apache-2.0
//
// What a launch costs without any binding: a loop over cuLaunchKernelEx. benchmarks/gpu_launch.py builds and
// loads it; it needs no CUDA headers.
#include <dlfcn.h>

#include <chrono>

#include "driver/library/cuda_abi.h"

using namespace weft::cuda;

// Nanoseconds of one launch of `function` on the default stream with `count` pointers as parameters, or less
// than 0: the driver's error, negated, or -1 where its library lacks the function.
extern "C" double bare_launch(const char* driver, void* function, int count, void** pointers, int launches) {
  using Launch = CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**);
  void* library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  auto launch = library == nullptr ? nullptr : reinterpret_cast<Launch>(dlsym(library, "cuLaunchKernelEx"));
  if (launch == nullptr || count > 8) return -1;
  void* parameters[8];
  for (int index = 0; index < count; ++index) parameters[index] = &pointers[index];
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  auto start = std::chrono::steady_clock::now();
  for (int index = 0; index < launches; ++index) {
    CUresult code = launch(&config, static_cast<CUfunction>(function), parameters, nullptr);
    if (code != CUDA_SUCCESS) return -code;
  }
  std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / launches;
}
