// SPDX-License-Identifier: Apache-2.0
//
// The library itself, devices, contexts and streams.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "fake_state.h"

using namespace fake;
using namespace weft::cuda;

namespace {

struct Name {
  CUresult code;
  const char* name;
  const char* text;
};

// The results that tests produce; others are unknown to the fake, as new ones
// are to an old driver.
constexpr Name kNames[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking "
     "stream"},
    {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster configuration"},
};

const Name* find_name(CUresult code) {
  for (const Name& name : kNames) {
    if (name.code == code) return &name;
  }
  return nullptr;
}

bool is_device(CUdevice device) {
  return device >= 0 && static_cast<size_t>(device) < state().devices.size();
}

bool device_attribute(const Device& device, int32_t attribute, int* value) {
  static const std::map<int32_t, int> kSame = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
  };
  auto same = kSame.find(attribute);
  if (same != kSame.end()) {
    *value = same->second;
    return true;
  }
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = device.major;
      return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = device.minor;
      return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = device.multiprocessors;
      return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = device.shared_opt_in;
      return true;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      *value = device.major >= 9;
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
  Call call("cuInit", false, "%u", flags);
  if (call.refused() != 0) return call.done(call.refused());
  if (state().pid != 0 && state().pid != getpid()) return call.done(CUDA_ERROR_NOT_INITIALIZED);
  FAKE_CHECK(!state().devices.empty(), CUDA_ERROR_NO_DEVICE);
  state().pid = getpid();
  state().primary.resize(state().devices.size());
  return call.done(0);
}

CUresult cuDriverGetVersion(int* version) {
  *version = state().version;
  return 0;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  const Name* name = find_name(error);
  *text = name == nullptr ? nullptr : name->name;
  return name == nullptr ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const Name* name = find_name(error);
  *text = name == nullptr ? nullptr : name->text;
  return name == nullptr ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void* data, void** handle) {
  FAKE_ENTER(cuLogsRegisterCallback, "%s", "");
  FAKE_CHECK(callback != nullptr, CUDA_ERROR_INVALID_VALUE);
  state().log = callback;
  state().log_data = data;
  *handle = &state().log;
  return call.done(0);
}

CUresult cuDeviceGetCount(int* count) {
  FAKE_ENTER(cuDeviceGetCount, "%s", "");
  *count = static_cast<int>(state().devices.size());
  return call.done(0);
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_ENTER(cuDeviceGet, "%d", ordinal);
  FAKE_CHECK(is_device(ordinal), CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return call.done(0);
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  FAKE_ENTER(cuDeviceGetName, "%d", device);
  FAKE_CHECK(is_device(device), CUDA_ERROR_INVALID_DEVICE);
  snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return call.done(0);
}

CUresult cuDeviceGetAttribute(int* value, int32_t attribute, CUdevice device) {
  FAKE_ENTER(cuDeviceGetAttribute, "%d, %d", attribute, device);
  FAKE_CHECK(is_device(device), CUDA_ERROR_INVALID_DEVICE);
  const Device& found = state().devices[static_cast<size_t>(device)];
  FAKE_CHECK(device_attribute(found, attribute, value), CUDA_ERROR_INVALID_VALUE);
  return call.done(0);
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  FAKE_ENTER(cuDeviceTotalMem, "%d", device);
  FAKE_CHECK(is_device(device), CUDA_ERROR_INVALID_DEVICE);
  *bytes = state().devices[static_cast<size_t>(device)].memory;
  return call.done(0);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKE_ENTER(cuDevicePrimaryCtxRetain, "%d", device);
  FAKE_CHECK(is_device(device), CUDA_ERROR_INVALID_DEVICE);
  Context*& primary = state().primary[static_cast<size_t>(device)];
  if (primary == nullptr) {
    primary = new Context{device, true, 0};
    state().contexts.insert(primary);
  }
  primary->retains += 1;
  state().retains += 1;
  *context = reinterpret_cast<CUcontext>(primary);
  return call.done(0);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  FAKE_ENTER(cuDevicePrimaryCtxGetState, "%d", device);
  FAKE_CHECK(is_device(device), CUDA_ERROR_INVALID_DEVICE);
  *flags = 0;
  *active = state().primary[static_cast<size_t>(device)] != nullptr;
  return call.done(0);
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKE_ENTER(cuCtxGetCurrent, "%s", "");
  *context = reinterpret_cast<CUcontext>(current_context());
  return call.done(0);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  FAKE_ENTER(cuCtxSetCurrent, "%p", static_cast<void*>(context));
  auto* wanted = reinterpret_cast<Context*>(context);
  FAKE_CHECK(wanted == nullptr || state().contexts.count(wanted) != 0, CUDA_ERROR_INVALID_CONTEXT);
  current_context() = wanted;
  return call.done(0);
}

// The old signature, with flags and a device: a context of its own beside the
// primary one.
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  FAKE_ENTER(cuCtxCreate_v2, "%u, %d", flags, device);
  FAKE_CHECK(is_device(device), CUDA_ERROR_INVALID_DEVICE);
  auto* made = new Context{device, false, 0};
  state().contexts.insert(made);
  current_context() = made;
  *context = reinterpret_cast<CUcontext>(made);
  return call.done(0);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  FAKE_ENTER(cuCtxDestroy_v2, "%p", static_cast<void*>(context));
  auto* doomed = reinterpret_cast<Context*>(context);
  FAKE_CHECK(state().contexts.erase(doomed) != 0, CUDA_ERROR_INVALID_CONTEXT);
  if (current_context() == doomed) current_context() = nullptr;
  return call.done(0);
}

CUresult cuCtxGetDevice(CUdevice* device) {
  FAKE_ENTER(cuCtxGetDevice, "%s", "");
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  *device = current_context()->device;
  return call.done(0);
}

CUresult cuCtxSynchronize() {
  FAKE_ENTER(cuCtxSynchronize, "%s", "");
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return call.done(0);
}

CUresult cuCtxSetLimit(int32_t limit, size_t value) {
  FAKE_ENTER(cuCtxSetLimit, "%d, %zu", limit, value);
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return call.done(0);
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  FAKE_ENTER(cuStreamCreate, "%u", flags);
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  auto* made = new Stream{current_context(), flags == 0, nullptr};
  state().streams.insert(made);
  *stream = reinterpret_cast<CUstream>(made);
  return call.done(0);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  FAKE_ENTER(cuStreamDestroy_v2, "%p", static_cast<void*>(stream));
  FAKE_CHECK(state().streams.erase(reinterpret_cast<Stream*>(stream)) != 0, CUDA_ERROR_INVALID_HANDLE);
  return call.done(0);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  FAKE_ENTER(cuStreamGetCtx, "%p", static_cast<void*>(stream));
  CUresult result = 0;
  *context = reinterpret_cast<CUcontext>(context_of(stream, &result));
  return call.done(result);
}

CUresult cuStreamSynchronize(CUstream stream) {
  FAKE_ENTER(cuStreamSynchronize, "%p", static_cast<void*>(stream));
  CUresult result = 0;
  Context* context = context_of(stream, &result);
  if (context != nullptr && is_device(context->device) && as_stream(stream) != nullptr &&
      as_stream(stream)->capture != nullptr) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return call.done(result);
}

CUresult cuStreamQuery(CUstream stream) {
  FAKE_ENTER(cuStreamQuery, "%p", static_cast<void*>(stream));
  CUresult result = 0;
  Context* context = context_of(stream, &result);
  if (context == nullptr) return call.done(result);
  if (as_stream(stream) != nullptr && as_stream(stream)->capture != nullptr)
    return call.done(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  std::lock_guard<std::mutex> lock(state().queue_mutex);
  return call.done(state().queued != 0 ? CUDA_ERROR_NOT_READY : 0);
}

// The legacy stream cannot say whether it captures while some stream of its
// context does.
CUresult cuStreamIsCapturing(CUstream stream, int32_t* status) {
  FAKE_ENTER(cuStreamIsCapturing, "%p", static_cast<void*>(stream));
  CUresult result = 0;
  Context* context = context_of(stream, &result);
  if (context == nullptr) return call.done(result);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  Stream* found = as_stream(stream);
  if (found != nullptr) {
    *status = found->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return call.done(0);
  }
  for (Stream* other : state().streams) {
    if (other->context == context && other->is_blocking && other->capture != nullptr)
      return call.done(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  return call.done(0);
}

CUresult cuThreadExchangeStreamCaptureMode(int32_t* mode) {
  FAKE_ENTER(cuThreadExchangeStreamCaptureMode, "%d", *mode);
  std::swap(capture_mode(), *mode);
  return call.done(0);
}

}  // extern "C"
