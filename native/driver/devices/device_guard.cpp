// SPDX-License-Identifier: Apache-2.0
//
// Entering and leaving the device of one call.
#include "driver/devices/device_guard.h"

#include "cpu/pool.h"
#include "driver/devices/device_program.h"
#include "driver/library/driver_library.h"
#include "hints.h"
#include "runtime/interpreter.h"

namespace weft {

using cuda::CUcontext;
using cuda::CUresult;

namespace {

// The usual call: everything is loaded, and the primary context of the device (the tensors', else the
// caller's) is current. Two driver calls of a few nanoseconds; false leaves the call to the slow path.
bool enter_quickly(weft_call_frame* frame, const DeviceProgram* program) {
  const weft_state* state = frame->state;
  if (WEFT_UNLIKELY(!driver_is_ready())) return false;
  const Device* device = device_or_null(frame->device);
  LoadedProgram* loaded = nullptr;
  if (WEFT_LIKELY(device != nullptr)) {
    loaded = program->loaded(state->load_policy, device->ordinal);
    if (WEFT_UNLIKELY(loaded == nullptr)) return false;
  } else if (frame->device >= 0) {
    return false;
  }
  CUcontext current = nullptr;
  if (WEFT_UNLIKELY(driver().cuCtxGetCurrent(&current) != cuda::CUDA_SUCCESS || current == nullptr)) {
    return false;
  }
  if (device == nullptr) {
    device = device_of_primary(current);
    if (device == nullptr) return false;
    loaded = program->loaded(state->load_policy, device->ordinal);
    if (loaded == nullptr) return false;
  } else if (WEFT_UNLIKELY(device->primary.load(std::memory_order_relaxed) != current)) {
    return false;
  }
  if (state->bound_device >= 0 && state->bound_device != device->ordinal) return false;
  if (is_stream_handle(frame->stream)) {
    CUcontext context = nullptr;
    auto stream = static_cast<cuda::CUstream>(frame->stream);
    if (driver().cuStreamGetCtx(stream, &context) != cuda::CUDA_SUCCESS || context != current) return false;
  }
  frame->device = device->ordinal;
  frame->driver_kernels = loaded;
  frame->is_home = loaded->home == current;
  return true;
}

bool choose_device(weft_call_frame* frame, CUcontext* chosen, DriverError* error) {
  const weft_state* state = frame->state;
  if (state->bound_device >= 0) {
    if (device_at(state->bound_device, error) == nullptr) return false;
    if (frame->device >= 0 && frame->device != state->bound_device) {
      return error->value("the function is bound to cuda:" + std::to_string(state->bound_device) +
                          " by .to(), received tensors on cuda:" + std::to_string(frame->device));
    }
    frame->device = state->bound_device;
  }
  if (!choose_context(&frame->device, frame->stream, chosen, error)) return false;
  if (state->load_policy != WEFT_LOAD_CONTEXT) return true;
  // A module's functions run in the context they were loaded in, the primary one.
  Device* device = device_at(frame->device, error);
  CUcontext primary = device == nullptr ? nullptr : primary_context(device, error);
  if (primary == nullptr) return false;
  if (is_stream_handle(frame->stream) && *chosen != primary) {
    return error->value("the stream is not of the primary context of cuda:" + std::to_string(frame->device) +
                        ", which the context executor needs; compile with --executor library");
  }
  *chosen = primary;
  return true;
}

// The same, with the function's name in weft's own errors.
bool choose_or_name(weft_call_frame* frame, const DeviceProgram& program, CUcontext* chosen,
                    DriverError* error) {
  if (choose_device(frame, chosen, error)) return true;
  if (error->kind == ErrorKind::kValue) error->message = program.function_name() + ": " + error->message;
  return false;
}

bool switch_to(weft_call_frame* frame, CUcontext chosen, DriverError* error) {
  CUcontext current = nullptr;
  CUresult result = driver().cuCtxGetCurrent(&current);
  if (result != cuda::CUDA_SUCCESS)
    return error->cuda(result, "cuCtxGetCurrent", "reading the current context");
  if (current == chosen) return true;
  result = driver().cuCtxSetCurrent(chosen);
  if (result != cuda::CUDA_SUCCESS) {
    return error->cuda(result, "cuCtxSetCurrent", "switching to cuda:" + std::to_string(frame->device));
  }
  frame->saved_context = current;
  frame->must_restore = 1;
  return true;
}

bool restore(weft_call_frame* frame, DriverError* error) {
  if (frame->must_restore == 0) return true;
  frame->must_restore = 0;
  CUresult result = driver().cuCtxSetCurrent(static_cast<CUcontext>(frame->saved_context));
  frame->saved_context = nullptr;
  if (result == cuda::CUDA_SUCCESS) return true;
  return error->cuda(result, "cuCtxSetCurrent", "restoring the caller's context");
}

// The driver's first use takes tenths of a second, a load milliseconds: release the GIL meanwhile.
bool open_without_gil(DriverError* error) {
  if (driver_is_ready()) return true;
  WithoutGil released;
  return open_driver(error);
}

bool enter_carefully(weft_call_frame* frame, DeviceProgram* program, DriverError* error) {
  if (!open_without_gil(error)) return false;
  CUcontext chosen = nullptr;
  if (!choose_or_name(frame, *program, &chosen, error)) return false;
  Device* device = device_at(frame->device, error);
  if (device == nullptr || !switch_to(frame, chosen, error)) return false;
  LoadedProgram* loaded = program->loaded(frame->state->load_policy, device->ordinal);
  if (loaded == nullptr) {
    WithoutGil released;
    auto stream = static_cast<cuda::CUstream>(frame->stream);
    loaded = program->load(frame->state->load_policy, device, chosen, stream, error);
  }
  frame->driver_kernels = loaded;
  frame->is_home = loaded != nullptr && loaded->home == chosen;
  return loaded != nullptr;
}

}  // namespace

namespace {

WEFT_COLD int32_t enter_or_explain(weft_call_frame* frame, DeviceProgram* program) {
  // A function without device code needs no device and no driver.
  if (program == nullptr) return 0;
  DriverError error;
  if (enter_carefully(frame, program, &error)) return 0;
  DriverError ignored;  // only the first error is reported
  restore(frame, &ignored);
  return set_ffi_error(error);
}

WEFT_COLD int32_t restore_or_explain(weft_call_frame* frame, int32_t code) {
  DriverError error;
  if (restore(frame, &error) || code != 0) return code;
  return set_ffi_error(error);
}

}  // namespace

int32_t multiprocessors(const weft_call_frame* frame) {
  if (frame->device_type != kDLCUDA) return cpu_multiprocessors();
  const Device* device = driver_is_ready() ? device_or_null(frame->device) : nullptr;
  return device == nullptr ? 0 : device->multiprocessors;
}

int32_t device_enter(weft_call_frame* frame) {
  frame->must_restore = 0;
  frame->saved_context = nullptr;
  frame->driver_kernels = nullptr;
  frame->entered_stream = frame->stream;
  frame->is_home = 0;
  auto* program = static_cast<DeviceProgram*>(frame->state->driver_state);
  if (WEFT_LIKELY(program != nullptr && enter_quickly(frame, program))) return 0;
  return enter_or_explain(frame, program);
}

int32_t device_leave(weft_call_frame* frame, int32_t code) {
  return WEFT_LIKELY(frame->must_restore == 0) ? code : restore_or_explain(frame, code);
}

}  // namespace weft
