// SPDX-License-Identifier: Apache-2.0
//
// How a program finds the functions: the driver's own table, hidden where it is
// newer than this driver. The declarations come from weft's table, so a
// signature that differs does not compile.
#include <cstring>

#include "fake_state.h"

using namespace weft::cuda;

extern "C" {
#define FAKE_ROW(name, version, parameters) CUresult name parameters;
WEFT_DRIVER_FUNCTIONS(FAKE_ROW)
#undef FAKE_ROW

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t, int32_t* status) {
  struct Row {
    const char* name;
    int version;
    void* function;
  };
  static const Row kRows[] = {
#define FAKE_ROW(name, version, parameters) {#name, version, reinterpret_cast<void*>(&name)},
      WEFT_DRIVER_FUNCTIONS(FAKE_ROW)
#undef FAKE_ROW
  };
  *function = nullptr;
  *status = 1;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  for (const Row& row : kRows) {
    if (strcmp(row.name, symbol) != 0 || fake::state().lacking.count(symbol) != 0) continue;
    if (row.version > fake::state().version || row.version > version) continue;
    *function = row.function;
    *status = 0;
    return 0;
  }
  return CUDA_ERROR_NOT_FOUND;
}

}  // extern "C"
