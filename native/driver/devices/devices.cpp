// SPDX-License-Identifier: Apache-2.0
//
// Devices and contexts: which device a context or stream is on, and switching back and forth.
#include "driver/devices/devices.h"

#include <mutex>

#include "driver/library/driver_library.h"

namespace weft {

using cuda::CUcontext;
using cuda::CUresult;

DeviceTable g_devices;

namespace {

std::mutex& retaining() {
  static std::mutex* only = new std::mutex;  // never destroyed, like the table
  return *only;
}

std::string hexadecimal(const void* pointer) {
  char text[32];
  snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

// Asks the driver with `context` current. For non-primary contexts only.
int32_t ask_device(CUcontext context, DriverError* error) {
  ContextGuard guard;
  if (!guard.enter(context, error)) return -1;
  cuda::CUdevice handle = -1;
  CUresult result = driver().cuCtxGetDevice(&handle);
  if (result != cuda::CUDA_SUCCESS) {
    error->cuda(result, "cuCtxGetDevice", "asking for the device of context " + hexadecimal(context));
    return -1;
  }
  if (!guard.leave(error)) return -1;
  for (int index = 0; index < g_devices.count; ++index) {
    if (g_devices.devices[index].handle == handle) return index;
  }
  error->runtime("context " + hexadecimal(context) + " is on a device that the driver did not list");
  return -1;
}

}  // namespace

// From 9.0 on each chip has its own instructions, available only to code for that chip alone, with an `a`.
std::string Device::architecture() const {
  return "sm_" + std::to_string(major) + std::to_string(minor) + (major >= 9 ? "a" : "");
}

std::string Device::text() const {
  char name[128] = "";
  if (driver().cuDeviceGetName(name, sizeof(name), handle) != cuda::CUDA_SUCCESS) name[0] = 0;
  name[sizeof(name) - 1] = 0;
  return "cuda:" + std::to_string(ordinal) + " (" + (name[0] ? std::string(name) + ", " : "") +
         architecture() + ")";
}

bool list_devices(DriverError* error) {
  int count = 0;
  CUresult result = driver().cuDeviceGetCount(&count);
  if (result != cuda::CUDA_SUCCESS) return error->cuda(result, "cuDeviceGetCount", "counting devices");
  if (count > kMaxDevices) count = kMaxDevices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Device& device = g_devices.devices[ordinal];
    device.ordinal = ordinal;
    result = driver().cuDeviceGet(&device.handle, ordinal);
    if (result != cuda::CUDA_SUCCESS) {
      return error->cuda(result, "cuDeviceGet", "opening cuda:" + std::to_string(ordinal));
    }
    const struct {
      int32_t attribute;
      int32_t* value;
    } wanted[] = {
        {cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &device.major},
        {cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &device.minor},
        {cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device.shared_bytes_opt_in},
        {cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device.multiprocessors},
    };
    for (const auto& row : wanted) {
      result = driver().cuDeviceGetAttribute(row.value, row.attribute, device.handle);
      if (result != cuda::CUDA_SUCCESS) {
        return error->cuda(result, "cuDeviceGetAttribute",
                           "reading the limits of cuda:" + std::to_string(ordinal));
      }
    }
  }
  g_devices.count = count;
  return true;
}

Device* device_at(int32_t ordinal, DriverError* error) {
  Device* device = device_or_null(ordinal);
  if (device == nullptr) {
    const int count = g_devices.count;
    error->value("there is no device cuda:" + std::to_string(ordinal) + "; the driver sees " +
                 (count == 0 ? "none" : std::to_string(count) + (count == 1 ? " device" : " devices")));
  }
  return device;
}

CUcontext primary_context(Device* device, DriverError* error) {
  CUcontext context = device->primary.load(std::memory_order_acquire);
  if (context != nullptr) return context;
  std::lock_guard<std::mutex> lock(retaining());
  context = device->primary.load(std::memory_order_acquire);
  if (context != nullptr) return context;
  CUresult result = driver().cuDevicePrimaryCtxRetain(&context, device->handle);
  if (result != cuda::CUDA_SUCCESS) {
    error->cuda(result, "cuDevicePrimaryCtxRetain", "retaining the primary context of " + device->text());
    return nullptr;
  }
  device->primary.store(context, std::memory_order_release);
  return context;
}

void adopt_primary_context(Device* device) {
  unsigned int flags = 0;
  int active = 0;
  if (device->primary.load(std::memory_order_acquire) != nullptr) return;
  if (driver().cuDevicePrimaryCtxGetState(device->handle, &flags, &active) != cuda::CUDA_SUCCESS) return;
  DriverError ignored;  // without it, only time is lost
  if (active != 0) primary_context(device, &ignored);
}

RelaxedCapture::RelaxedCapture() : mode_(cuda::CU_STREAM_CAPTURE_MODE_RELAXED) {
  exchanged_ = driver().cuThreadExchangeStreamCaptureMode(&mode_) == cuda::CUDA_SUCCESS;
}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) driver().cuThreadExchangeStreamCaptureMode(&mode_);
}

int32_t device_of_context(CUcontext context, DriverError* error) {
  const Device* device = device_of_primary(context);
  return device != nullptr ? device->ordinal : ask_device(context, error);
}

int32_t device_of_stream(cuda::CUstream stream, CUcontext* context, DriverError* error) {
  CUresult result = driver().cuStreamGetCtx(stream, context);
  if (result != cuda::CUDA_SUCCESS) {
    error->cuda(result, "cuStreamGetCtx", "asking for the context of stream " + hexadecimal(stream),
                "the stream does not exist, or was destroyed");
    return -1;
  }
  return device_of_context(*context, error);
}

bool ContextGuard::enter(CUcontext context, DriverError* error) {
  CUcontext current = nullptr;
  CUresult result = driver().cuCtxGetCurrent(&current);
  if (result != cuda::CUDA_SUCCESS)
    return error->cuda(result, "cuCtxGetCurrent", "reading the current context");
  if (current == context) return true;
  result = driver().cuCtxSetCurrent(context);
  if (result != cuda::CUDA_SUCCESS) return error->cuda(result, "cuCtxSetCurrent", "switching contexts");
  saved_ = current;
  switched_ = true;
  return true;
}

bool ContextGuard::leave(DriverError* error) {
  if (!switched_) return true;
  switched_ = false;
  CUresult result = driver().cuCtxSetCurrent(saved_);
  if (result == cuda::CUDA_SUCCESS || error == nullptr) return result == cuda::CUDA_SUCCESS;
  return error->cuda(result, "cuCtxSetCurrent", "restoring the caller's context");
}

bool choose_context(int32_t* device, const void* stream, CUcontext* chosen, DriverError* error) {
  if (is_stream_handle(stream)) {
    auto handle = reinterpret_cast<cuda::CUstream>(const_cast<void*>(stream));
    const int32_t ordinal = device_of_stream(handle, chosen, error);
    if (ordinal < 0) return false;
    if (*device >= 0 && *device != ordinal) {
      return error->value("stream " + hexadecimal(stream) + " is on cuda:" + std::to_string(ordinal) +
                          ", expected one of cuda:" + std::to_string(*device) + ", where the work is");
    }
    *device = ordinal;
    return true;
  }
  CUcontext current = nullptr;
  CUresult result = driver().cuCtxGetCurrent(&current);
  if (result != cuda::CUDA_SUCCESS)
    return error->cuda(result, "cuCtxGetCurrent", "reading the current context");
  const int32_t callers = current == nullptr ? -1 : device_of_context(current, error);
  if (current != nullptr && callers < 0) return false;
  if (*device < 0) *device = current == nullptr ? 0 : callers;
  if (current != nullptr && callers == *device) {
    *chosen = current;
    return true;
  }
  Device* wanted = device_at(*device, error);
  if (wanted == nullptr) return false;
  *chosen = primary_context(wanted, error);
  return *chosen != nullptr;
}

}  // namespace weft
