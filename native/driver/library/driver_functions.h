// SPDX-License-Identifier: Apache-2.0
//
// The driver functions that weft uses: one row each, with the driver version of the variant used. Rows above
// the minimum driver are optional: their pointer is NULL on an older driver, which callers must handle.
// Signatures are checked against the real cuda.h in a test.
#ifndef WEFT_DRIVER_DRIVER_FUNCTIONS_H_
#define WEFT_DRIVER_DRIVER_FUNCTIONS_H_

#include "driver/library/cuda_abi.h"

namespace weft::cuda {

inline constexpr int kMinimumDriver = 12000;  // cuLibrary*, cuGetProcAddress_v2, tensor maps

// ROW(function, driver version, parameters)
#define WEFT_DRIVER_FUNCTIONS(ROW)                                                                         \
  ROW(cuInit, 12000, (unsigned int flags))                                                                 \
  ROW(cuDriverGetVersion, 12000, (int* version))                                                           \
  ROW(cuGetErrorName, 12000, (CUresult error, const char** text))                                          \
  ROW(cuGetErrorString, 12000, (CUresult error, const char** text))                                        \
  ROW(cuDeviceGet, 12000, (CUdevice * device, int ordinal))                                                \
  ROW(cuDeviceGetCount, 12000, (int* count))                                                               \
  ROW(cuDeviceGetName, 12000, (char* name, int length, CUdevice device))                                   \
  ROW(cuDeviceGetAttribute, 12000, (int* value, int32_t attribute, CUdevice device))                       \
  ROW(cuDeviceTotalMem, 12000, (size_t* bytes, CUdevice device))                                           \
  ROW(cuDevicePrimaryCtxRetain, 12000, (CUcontext * context, CUdevice device))                             \
  ROW(cuDevicePrimaryCtxGetState, 12000, (CUdevice device, unsigned int* flags, int* active))              \
  ROW(cuCtxGetCurrent, 12000, (CUcontext * context))                                                       \
  ROW(cuCtxSetCurrent, 12000, (CUcontext context))                                                         \
  ROW(cuCtxGetDevice, 12000, (CUdevice * device))                                                          \
  ROW(cuCtxSynchronize, 12000, ())                                                                         \
  ROW(cuCtxSetLimit, 12000, (int32_t limit, size_t value))                                                 \
  ROW(cuStreamGetCtx, 12000, (CUstream stream, CUcontext * context))                                       \
  ROW(cuStreamQuery, 12000, (CUstream stream))                                                             \
  ROW(cuStreamSynchronize, 12000, (CUstream stream))                                                       \
  ROW(cuStreamWaitEvent, 12000, (CUstream stream, CUevent event, unsigned int flags))                      \
  ROW(cuStreamIsCapturing, 12000, (CUstream stream, int32_t* status))                                      \
  ROW(cuThreadExchangeStreamCaptureMode, 12000, (int32_t* mode))                                           \
  ROW(cuLibraryLoadData, 12000,                                                                            \
      (CUlibrary * library, const void* code, int32_t* jit_options, void** jit_values,                     \
       unsigned int jit_count, int32_t* options, void** values, unsigned int count))                       \
  ROW(cuLibraryUnload, 12000, (CUlibrary library))                                                         \
  ROW(cuLibraryGetKernel, 12000, (CUkernel * kernel, CUlibrary library, const char* name))                 \
  ROW(cuLibraryGetGlobal, 12000,                                                                           \
      (CUdeviceptr * address, size_t* bytes, CUlibrary library, const char* name))                         \
  ROW(cuKernelGetFunction, 12000, (CUfunction * function, CUkernel kernel))                                \
  ROW(cuKernelGetAttribute, 12000, (int* value, int32_t attribute, CUkernel kernel, CUdevice device))      \
  ROW(cuKernelSetAttribute, 12000, (int32_t attribute, int value, CUkernel kernel, CUdevice device))       \
  ROW(cuModuleLoadData, 12000, (CUmodule * module, const void* image))                                     \
  ROW(cuModuleUnload, 12000, (CUmodule module))                                                            \
  ROW(cuModuleGetFunction, 12000, (CUfunction * function, CUmodule module, const char* name))              \
  ROW(cuModuleGetGlobal, 12000, (CUdeviceptr * address, size_t* bytes, CUmodule module, const char* name)) \
  ROW(cuFuncGetAttribute, 12000, (int* value, int32_t attribute, CUfunction function))                     \
  ROW(cuFuncSetAttribute, 12000, (CUfunction function, int32_t attribute, int value))                      \
  ROW(cuFuncSetCacheConfig, 12000, (CUfunction function, int32_t preference))                              \
  ROW(cuLaunchKernelEx, 12000,                                                                             \
      (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))                \
  ROW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 12000,                                         \
      (int* blocks, CUfunction function, int block_size, size_t shared_bytes, unsigned int flags))         \
  ROW(cuOccupancyMaxActiveClusters, 12000,                                                                 \
      (int* clusters, CUfunction function, const CUlaunchConfig* config))                                  \
  ROW(cuOccupancyMaxPotentialClusterSize, 12000,                                                           \
      (int* cluster_size, CUfunction function, const CUlaunchConfig* config))                              \
  ROW(cuTensorMapEncodeTiled, 12000,                                                                       \
      (CUtensorMap * map, int32_t data_type, uint32_t rank, void* address, const uint64_t* dims,           \
       const uint64_t* byte_strides, const uint32_t* box, const uint32_t* element_strides,                 \
       int32_t interleave, int32_t swizzle, int32_t l2_promotion, int32_t fill))                           \
  ROW(cuTensorMapEncodeIm2col, 12000,                                                                      \
      (CUtensorMap * map, int32_t data_type, uint32_t rank, void* address, const uint64_t* dims,           \
       const uint64_t* byte_strides, const int* lower, const int* upper, uint32_t channels_per_pixel,      \
       uint32_t pixels_per_column, const uint32_t* element_strides, int32_t interleave, int32_t swizzle,   \
       int32_t l2_promotion, int32_t fill))                                                                \
  ROW(cuMemAlloc, 12000, (CUdeviceptr * address, size_t bytes))                                            \
  ROW(cuMemFree, 12000, (CUdeviceptr address))                                                             \
  ROW(cuMemAllocAsync, 12000, (CUdeviceptr * address, size_t bytes, CUstream stream))                      \
  ROW(cuMemFreeAsync, 12000, (CUdeviceptr address, CUstream stream))                                       \
  ROW(cuDeviceGetDefaultMemPool, 12000, (CUmemoryPool * pool, CUdevice device))                            \
  ROW(cuMemPoolGetAttribute, 12000, (CUmemoryPool pool, int32_t attribute, void* value))                   \
  ROW(cuMemPoolSetAttribute, 12000, (CUmemoryPool pool, int32_t attribute, void* value))                   \
  ROW(cuMemHostAlloc, 12000, (void** address, size_t bytes, unsigned int flags))                           \
  ROW(cuMemFreeHost, 12000, (void* address))                                                               \
  ROW(cuMemGetInfo, 12000, (size_t* free_bytes, size_t* total_bytes))                                      \
  ROW(cuMemcpyAsync, 12000, (CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream))       \
  ROW(cuMemcpyPeerAsync, 12000,                                                                            \
      (CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context,         \
       size_t bytes, CUstream stream))                                                                     \
  ROW(cuMemcpy3DAsync, 12000, (const CUDA_MEMCPY3D* copy, CUstream stream))                                \
  ROW(cuMemsetD8Async, 12000, (CUdeviceptr target, unsigned char value, size_t count, CUstream stream))    \
  ROW(cuMemsetD16Async, 12000, (CUdeviceptr target, unsigned short value, size_t count, CUstream stream))  \
  ROW(cuMemsetD32Async, 12000, (CUdeviceptr target, unsigned int value, size_t count, CUstream stream))    \
  ROW(cuEventCreate, 12000, (CUevent * event, unsigned int flags))                                         \
  ROW(cuEventRecord, 12000, (CUevent event, CUstream stream))                                              \
  ROW(cuEventElapsedTime, 12000, (float* milliseconds, CUevent begin, CUevent end))                        \
  ROW(cuEventDestroy, 12000, (CUevent event))                                                              \
  ROW(cuPointerGetAttribute, 12000, (void* value, int32_t attribute, CUdeviceptr address))                 \
  ROW(cuFuncLoad, 12040, (CUfunction function))                                                            \
  ROW(cuFuncGetParamInfo, 12040, (CUfunction function, size_t index, size_t* offset, size_t* bytes))       \
  ROW(cuLogsRegisterCallback, 12090, (CUlogsCallback callback, void* data, void** handle))

// A pointer per row, for calls as in NVIDIA's documentation: driver().cuLaunchKernelEx(...).
struct DriverFunctions {
#define WEFT_ROW(name, version, parameters) CUresult(*name) parameters;
  WEFT_DRIVER_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
};

}  // namespace weft::cuda

#endif  // WEFT_DRIVER_DRIVER_FUNCTIONS_H_
