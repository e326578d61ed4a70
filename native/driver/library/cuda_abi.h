// SPDX-License-Identifier: Apache-2.0
//
// The declarations of the CUDA driver's ABI that weft uses, written out so that building needs no cuda.h.
// tests/native/test_cuda_abi.py compiles this next to the real header and compares every line of it.
#ifndef WEFT_DRIVER_CUDA_ABI_H_
#define WEFT_DRIVER_CUDA_ABI_H_

#include <cstddef>
#include <cstdint>

namespace weft::cuda {

using CUresult = int32_t;  // the driver's enums are 32-bit integers
using CUdevice = int32_t;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUlogsCallback = void (*)(void* data, int32_t level, char* message, size_t length);

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr CUresult CUDA_ERROR_OUT_OF_MEMORY = 2;
inline constexpr CUresult CUDA_ERROR_NOT_INITIALIZED = 3;
inline constexpr CUresult CUDA_ERROR_DEINITIALIZED = 4;
inline constexpr CUresult CUDA_ERROR_STUB_LIBRARY = 34;
inline constexpr CUresult CUDA_ERROR_NO_DEVICE = 100;
inline constexpr CUresult CUDA_ERROR_INVALID_DEVICE = 101;
inline constexpr CUresult CUDA_ERROR_INVALID_IMAGE = 200;
inline constexpr CUresult CUDA_ERROR_INVALID_CONTEXT = 201;
inline constexpr CUresult CUDA_ERROR_NO_BINARY_FOR_GPU = 209;
inline constexpr CUresult CUDA_ERROR_INVALID_PTX = 218;
inline constexpr CUresult CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222;
inline constexpr CUresult CUDA_ERROR_INVALID_HANDLE = 400;
inline constexpr CUresult CUDA_ERROR_NOT_FOUND = 500;
inline constexpr CUresult CUDA_ERROR_NOT_READY = 600;
inline constexpr CUresult CUDA_ERROR_ILLEGAL_ADDRESS = 700;
inline constexpr CUresult CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701;
inline constexpr CUresult CUDA_ERROR_LAUNCH_TIMEOUT = 702;
inline constexpr CUresult CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;
inline constexpr CUresult CUDA_ERROR_ASSERT = 710;
inline constexpr CUresult CUDA_ERROR_HARDWARE_STACK_ERROR = 714;
inline constexpr CUresult CUDA_ERROR_ILLEGAL_INSTRUCTION = 715;
inline constexpr CUresult CUDA_ERROR_MISALIGNED_ADDRESS = 716;
inline constexpr CUresult CUDA_ERROR_INVALID_ADDRESS_SPACE = 717;
inline constexpr CUresult CUDA_ERROR_INVALID_PC = 718;
inline constexpr CUresult CUDA_ERROR_LAUNCH_FAILED = 719;
inline constexpr CUresult CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720;
inline constexpr CUresult CUDA_ERROR_NOT_SUPPORTED = 801;
inline constexpr CUresult CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803;
inline constexpr CUresult CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804;
inline constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900;
inline constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901;
inline constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906;
inline constexpr CUresult CUDA_ERROR_INVALID_CLUSTER_SIZE = 912;
inline constexpr CUresult CUDA_ERROR_FUNCTION_NOT_LOADED = 913;

// CUdevice_attribute.
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE = 109;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT = 126;
inline constexpr int32_t CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127;

// CUfunction_attribute.
inline constexpr int32_t CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13;
inline constexpr int32_t CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14;

// CUmemPool_attribute.
inline constexpr int32_t CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4;

// CUpointer_attribute and CUmemorytype.
inline constexpr int32_t CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
inline constexpr int32_t CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3;
inline constexpr int32_t CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;
inline constexpr int32_t CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
inline constexpr int32_t CU_MEMORYTYPE_HOST = 1;
inline constexpr int32_t CU_MEMORYTYPE_DEVICE = 2;
inline constexpr int32_t CU_MEMORYTYPE_UNIFIED = 4;  // the address tells

// CUstreamCaptureStatus, CUstreamCaptureMode.
inline constexpr int32_t CU_STREAM_CAPTURE_STATUS_NONE = 0;
inline constexpr int32_t CU_STREAM_CAPTURE_STATUS_ACTIVE = 1;
inline constexpr int32_t CU_STREAM_CAPTURE_MODE_RELAXED = 2;

// CUevent_flags.
inline constexpr unsigned int CU_EVENT_DISABLE_TIMING = 2;

// CUfunc_cache, CUlimit.
inline constexpr int32_t CU_FUNC_CACHE_PREFER_SHARED = 1;
inline constexpr int32_t CU_LIMIT_PRINTF_FIFO_SIZE = 1;

// CUdriverProcAddress_flags: default streams mean the legacy one, as in code built without further flags.
inline constexpr uint64_t CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1;

// CUlaunchAttributeID: those that the launch itself reads; others pass through as data.
inline constexpr uint32_t CU_LAUNCH_ATTRIBUTE_IGNORE = 0;
inline constexpr uint32_t CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1;
inline constexpr uint32_t CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2;
inline constexpr uint32_t CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4;
inline constexpr uint32_t CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;
inline constexpr uint32_t CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11;

// An id and a value padded to 64 bytes; the value holds pointers, so it is 8-byte aligned.
struct CUlaunchAttribute {
  uint32_t id;
  char pad[4];
  alignas(8) unsigned char value[64];
};
static_assert(sizeof(CUlaunchAttribute) == 72 && offsetof(CUlaunchAttribute, value) == 8);

struct CUlaunchConfig {
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
};
static_assert(sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, hStream) == 32 &&
              offsetof(CUlaunchConfig, attrs) == 40 && offsetof(CUlaunchConfig, numAttrs) == 48);

// A copy of layers of rows, in bytes.
struct CUDA_MEMCPY3D {
  size_t srcXInBytes;
  size_t srcY;
  size_t srcZ;
  size_t srcLOD;
  int32_t srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  void* reserved0;
  size_t srcPitch;
  size_t srcHeight;
  size_t dstXInBytes;
  size_t dstY;
  size_t dstZ;
  size_t dstLOD;
  int32_t dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  void* reserved1;
  size_t dstPitch;
  size_t dstHeight;
  size_t WidthInBytes;
  size_t Height;
  size_t Depth;
};
static_assert(sizeof(CUDA_MEMCPY3D) == 200 && offsetof(CUDA_MEMCPY3D, dstPitch) == 160);

// A TMA descriptor: opaque, passed to kernels by value.
struct alignas(128) CUtensorMap {
  uint64_t opaque[16];
};
static_assert(sizeof(CUtensorMap) == 128);

}  // namespace weft::cuda

#endif  // WEFT_DRIVER_CUDA_ABI_H_
