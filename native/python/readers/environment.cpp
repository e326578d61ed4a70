// SPDX-License-Identifier: Apache-2.0
//
// Callees may request a tensor of the caller's library and check for signals. The allocator is installed once
// per process and uses its thread's current call, so that calls set nothing.
#include "python/readers/environment.h"

#include "driver/devices/owned_tensor.h"
#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"
#include "python/gil.h"
#include "python/readers/stream.h"
#include "python/values/type_table.h"
#include "runtime/environment_stream.h"

namespace weft {
namespace {

using SetError = void (*)(void* context, const char* kind, const char* message);

// In memory of its own, for callers whose library has no allocator, such as NumPy, and outside calls.
int allocate_plain(const DLTensor& prototype, DLManagedTensorVersioned** out, void* context,
                   SetError set_error) {
  DriverError error;
  *out = make_owned_tensor(prototype, &error);
  if (*out != nullptr) return 0;
  set_error(context, ffi_kind(error.kind), error.message.c_str());
  return -1;
}

int allocate_tensor(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, SetError set_error) {
  const TypeEntry* entry = t_call == nullptr ? nullptr : t_call->tensors;
  if (entry != nullptr && entry->exchange != nullptr &&
      entry->exchange->managed_tensor_allocator != nullptr) {
    return entry->exchange->managed_tensor_allocator(prototype, out, context, set_error);
  }
  return allocate_plain(*prototype, out, context, set_error);
}

// Callees ask without the GIL, on the called thread.
int check_signals() {
  if (!interpreter_is_usable()) return 0;
  HeldGil gil;
  return PyErr_CheckSignals();
}

// check_signals takes the GIL itself: libtvm_ffi restores only a nonzero state, and that of a thread with
// the GIL is zero.
void* take_nothing() { return nullptr; }
void give_nothing(void*) {}

PyObject* environment_stream_method(PyObject*, PyObject* arguments) {
  int device_type, device;
  if (!PyArg_ParseTuple(arguments, "ii:environment_stream", &device_type, &device)) return nullptr;
  if (device_type < 0 || device_type > INT16_MAX || device < 0 || device > INT16_MAX) {
    PyErr_Format(PyExc_ValueError, "there is no device (%d, %d)", device_type, device);
    return nullptr;
  }
  return require_library() != 0 ? nullptr : PyLong_FromVoidPtr(environment_stream(device_type, device));
}

PyObject* set_environment_stream(PyObject*, PyObject* arguments) {
  int device_type, device;
  PyObject* stream;
  if (!PyArg_ParseTuple(arguments, "iiO:set_environment_stream", &device_type, &device, &stream))
    return nullptr;
  if (device_type < 0 || device_type > INT16_MAX || device < 0 || device > INT16_MAX) {
    PyErr_Format(PyExc_ValueError, "there is no device (%d, %d)", device_type, device);
    return nullptr;
  }
  TVMFFIAny value;
  if (require_library() != 0 || encode_stream(stream, &value) != 0) return nullptr;
  void* previous = nullptr;
  int code = ffi().env_set_stream(device_type, device, value.v_ptr, &previous);
  return code == 0 ? PyLong_FromVoidPtr(previous) : raise_ffi_error(code);
}

PyMethodDef kMethods[] = {
    {"environment_stream", environment_stream_method, METH_VARARGS,
     "environment_stream(device_type: int, device: int) -> int\n--\n\n"
     "The FFI environment's stream for a device in this thread; 0 is the default stream."},
    {"set_environment_stream", set_environment_stream, METH_VARARGS,
     "set_environment_stream(device_type: int, device: int, stream) -> int\n--\n\n"
     "Sets it, and returns the previous one. A stream is an address, None, or a library's stream object."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void prepare_environment() {
  ffi().env_register_c_api("PyErr_CheckSignals", reinterpret_cast<void*>(check_signals));
  ffi().env_register_c_api("PyGILState_Ensure", reinterpret_cast<void*>(take_nothing));
  ffi().env_register_c_api("PyGILState_Release", reinterpret_cast<void*>(give_nothing));
  if (ffi().env_get_allocator() != nullptr) return;  // the program has one
  // Setting the process's allocator also sets this thread's, which is undone: it would precede the one that
  // the tvm_ffi package sets for its calls.
  ffi().env_set_allocator(allocate_tensor, 1, nullptr);
  ffi().env_set_allocator(nullptr, 0, nullptr);
}

int add_environment(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
