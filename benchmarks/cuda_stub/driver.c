// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 for torch's libraries to link to, never called in the benchmark.
#define NOTHING(name) \
  int name(void) { return 0; }

NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxSetCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuDevicePrimaryCtxGetState)
NOTHING(cuDevicePrimaryCtxRetain)
NOTHING(cuFuncGetAttribute)
NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncSetCacheConfig)
NOTHING(cuGetErrorString)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLinkAddData_v2)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate_v2)
NOTHING(cuModuleGetFunction)
NOTHING(cuModuleLoad)
NOTHING(cuModuleLoadData)
NOTHING(cuModuleLoadDataEx)
NOTHING(cuModuleUnload)
NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOTHING(cuPointerGetAttribute)
NOTHING(cuTensorMapEncodeTiled)
