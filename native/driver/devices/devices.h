// SPDX-License-Identifier: Apache-2.0
//
// The devices that the driver sees, each with its retained primary context and the limits that messages
// quote. Made when the driver is opened, kept for the life of the process.
#ifndef WEFT_DRIVER_DEVICES_H_
#define WEFT_DRIVER_DEVICES_H_

#include <atomic>

#include "driver/library/driver_error.h"

namespace weft {

inline constexpr int kMaxDevices = 64;

struct Device {
  int32_t ordinal = 0;
  cuda::CUdevice handle = 0;
  int32_t major = 0, minor = 0;     // compute capability
  int32_t shared_bytes_opt_in = 0;  // most shared memory that a block can request
  int32_t multiprocessors = 0;
  std::atomic<cuda::CUcontext> primary{
      nullptr};  // one retain, owned here, never released: contexts outlive exit

  std::atomic<bool> keeps_scratch{false};  // whether keep_scratch (launch_scratch.cpp) has asked its pool to

  std::string text() const;          // cuda:0 (NVIDIA H200, sm_90a)
  std::string architecture() const;  // sm_89; sm_90a: the target of weft's code there
};

// Fills the table of devices; called by open_driver with its lock held, cuInit done.
bool list_devices(DriverError* error);

// Plain data, never destroyed: threads may still call at exit.
struct DeviceTable {
  Device devices[kMaxDevices];
  int count = 0;
};
extern DeviceTable g_devices;

inline int device_count() { return g_devices.count; }
// The device with that ordinal; nullptr with an error that gives the number of devices.
Device* device_at(int32_t ordinal, DriverError* error);
// The same without an error, for checked ordinals.
inline Device* device_or_null(int32_t ordinal) {
  return static_cast<uint32_t>(ordinal) < static_cast<uint32_t>(g_devices.count) ? &g_devices.devices[ordinal]
                                                                                 : nullptr;
}
// The device whose primary context this is, or nullptr; makes no driver call. `context` is not NULL.
inline Device* device_of_primary(cuda::CUcontext context) {
  for (int index = 0; index < g_devices.count; ++index) {
    Device& device = g_devices.devices[index];
    if (device.primary.load(std::memory_order_acquire) == context) return &device;
  }
  return nullptr;
}

// The device's primary context, retained on first use. nullptr with an error.
cuda::CUcontext primary_context(Device* device, DriverError* error);
// Retains the primary context if it exists already, so that calls in it are recognized without asking. One
// that does not exist is not made: it would cost half a gigabyte.
void adopt_primary_context(Device* device);
// The device of a context, made current for a moment unless it is a primary one; -1 with an error.
int32_t device_of_context(cuda::CUcontext context, DriverError* error);
// The device of a stream that is a handle (not 0, 1 or 2) and its context; -1 with an error.
int32_t device_of_stream(cuda::CUstream stream, cuda::CUcontext* context, DriverError* error);

// NULL, legacy (1) and per-thread (2) streams are names, not handles: they follow the current context.
inline bool is_stream_handle(const void* stream) { return reinterpret_cast<uintptr_t>(stream) > 2; }

// Makes a context current for the guard's life and restores the caller's, even if none.
class ContextGuard {
 public:
  ContextGuard() = default;
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() { leave(nullptr); }
  bool enter(cuda::CUcontext context, DriverError* error);
  // `error` may be NULL: then a failure to restore is not reported. True if there was nothing to do.
  bool leave(DriverError* error);

 private:
  cuda::CUcontext saved_ = nullptr;
  bool switched_ = false;
};

// Lets this thread make calls that would otherwise invalidate a capture in progress, such as loading and
// freeing. They do not touch captured streams.
class RelaxedCapture {
 public:
  RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  int32_t mode_;
  bool exchanged_;
};

// The context that work on `device` and `stream` runs in: the stream's, else the caller's if it is on that
// device, else the device's primary one. `device` -1 means none was chosen; it is set to the stream's, the
// caller's, or device 0.
bool choose_context(int32_t* device, const void* stream, cuda::CUcontext* chosen, DriverError* error);

}  // namespace weft

#endif  // WEFT_DRIVER_DEVICES_H_
