// SPDX-License-Identifier: Apache-2.0
//
// Callees may ask for a tensor of the caller's library and for pending signals. The allocator is installed
// once for the process and looks at the call that runs on its thread, so that a call sets nothing.
#include "python/readers/environment.h"

#include <cstdlib>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"
#include "python/gil.h"
#include "python/readers/stream.h"
#include "python/tensors/dlpack_export.h"
#include "python/values/type_table.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 64;  // of memory that is allocated here, in bytes

using SetError = void (*)(void* context, const char* kind, const char* message);

// Plain memory, for callers whose library has no allocator of its own, as NumPy.
int allocate_on_cpu(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, SetError set_error) {
  size_t bits = static_cast<size_t>(prototype->dtype.bits) * prototype->dtype.lanes;
  size_t elements = 1;
  bool overflows = false;
  for (int32_t axis = 0; axis < prototype->ndim; ++axis) {
    overflows = overflows || prototype->shape[axis] < 0 ||
                __builtin_mul_overflow(elements, static_cast<size_t>(prototype->shape[axis]), &elements);
  }
  overflows = overflows || __builtin_mul_overflow(elements, bits, &bits);
  const size_t bytes = (bits / 8 + kAlignment) / kAlignment * kAlignment;
  void* data = overflows ? nullptr : std::aligned_alloc(kAlignment, bytes);
  if (data == nullptr) {
    set_error(context, "MemoryError", "no memory for a tensor that the callee asked for");
    return -1;
  }
  DLTensor tensor = *prototype;
  tensor.data = data;
  tensor.strides = nullptr;
  tensor.byte_offset = 0;
  *out = export_versioned(tensor, 0, {data, std::free});
  if (*out != nullptr) return 0;
  set_error(context, "MemoryError", "no memory for a tensor that the callee asked for");
  return -1;
}

int allocate_tensor(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, SetError set_error) {
  if (t_call == nullptr) {
    set_error(context, "RuntimeError",
              "a tensor was asked for outside of any call, so nobody can allocate it");
    return -1;
  }
  const TypeEntry* entry = t_call->tensors;
  if (entry != nullptr && entry->exchange != nullptr &&
      entry->exchange->managed_tensor_allocator != nullptr) {
    return entry->exchange->managed_tensor_allocator(prototype, out, context, set_error);
  }
  if (prototype->device.device_type == kDLCPU) return allocate_on_cpu(prototype, out, context, set_error);
  set_error(context, "RuntimeError",
            "a tensor on another device than the CPU was asked for, and the library of the call's arrays "
            "offers no allocator");
  return -1;
}

// Callees ask without the GIL, from the thread that was called.
int check_signals() {
  if (!interpreter_is_usable()) return 0;
  HeldGil gil;
  return PyErr_CheckSignals();
}

// check_signals takes the GIL itself: libtvm_ffi gives back only a state that is not zero, which the state
// of a thread that holds the GIL is.
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
     "The stream that the FFI environment of this thread holds for a device; 0 is the default stream."},
    {"set_environment_stream", set_environment_stream, METH_VARARGS,
     "set_environment_stream(device_type: int, device: int, stream) -> int\n--\n\n"
     "Sets it, and returns the one before. A stream is an address, None, or an object that libraries use."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void prepare_environment() {
  ffi().env_register_c_api("PyErr_CheckSignals", reinterpret_cast<void*>(check_signals));
  ffi().env_register_c_api("PyGILState_Ensure", reinterpret_cast<void*>(take_nothing));
  ffi().env_register_c_api("PyGILState_Release", reinterpret_cast<void*>(give_nothing));
  if (ffi().env_get_allocator() != nullptr) return;  // the program has one
  // Setting the process's allocator sets this thread's, too, which is taken back: it would go before the one
  // that the tvm_ffi package sets for its calls.
  ffi().env_set_allocator(allocate_tensor, 1, nullptr);
  ffi().env_set_allocator(nullptr, 0, nullptr);
}

int add_environment(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
