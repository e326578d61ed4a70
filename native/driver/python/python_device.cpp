// SPDX-License-Identifier: Apache-2.0
//
// Devices, contexts and memory for Python.
#include "driver/devices/device_program.h"
#include "driver/devices/devices.h"
#include "driver/devices/findings.h"
#include "driver/devices/unload_queue.h"
#include "driver/launch/extract_pointer.h"
#include "driver/launch/launch_diagnosis.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "python/errors/ffi_error.h"
#include "python/readers/stream.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

PyObject* attribute(PyObject*, PyObject* arguments) {
  int ordinal = 0, number = 0;
  if (!PyArg_ParseTuple(arguments, "ii:device_attribute", &ordinal, &number)) return nullptr;
  DriverError error;
  Device* device = ensure_driver(&error) ? device_at(ordinal, &error) : nullptr;
  if (device == nullptr) return set_python_error(error);
  int value = 0;
  const cuda::CUresult result = driver().cuDeviceGetAttribute(&value, number, device->handle);
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuDeviceGetAttribute",
               "asking for attribute " + std::to_string(number) + " of " + device->text());
    return set_python_error(error);
  }
  return PyLong_FromLong(value);
}

PyObject* architecture(PyObject*, PyObject* argument) {
  const long ordinal = PyLong_AsLong(argument);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  DriverError error;
  const Device* device = ensure_driver(&error) ? device_at(static_cast<int32_t>(ordinal), &error) : nullptr;
  if (device == nullptr) return set_python_error(error);
  return PyUnicode_FromString(device->architecture().c_str());
}

PyObject* name_and_memory(PyObject*, PyObject* argument) {
  const long ordinal = PyLong_AsLong(argument);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  DriverError error;
  Device* device = ensure_driver(&error) ? device_at(static_cast<int32_t>(ordinal), &error) : nullptr;
  if (device == nullptr) return set_python_error(error);
  char name[256] = "";
  size_t bytes = 0;
  driver().cuDeviceGetName(name, sizeof(name) - 1, device->handle);
  const cuda::CUresult result = driver().cuDeviceTotalMem(&bytes, device->handle);
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuDeviceTotalMem", "asking for the memory of " + device->text());
    return set_python_error(error);
  }
  return Py_BuildValue("(sn)", name, static_cast<Py_ssize_t>(bytes));
}

// The device of the caller's context, or -1 without one.
PyObject* current_device(PyObject*, PyObject*) {
  DriverError error;
  if (!ensure_driver(&error)) return set_python_error(error);
  cuda::CUcontext context = nullptr;
  const cuda::CUresult result = driver().cuCtxGetCurrent(&context);
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuCtxGetCurrent", "reading the current context", explain_asynchronous_error(result));
    return set_python_error(error);
  }
  if (context == nullptr) return PyLong_FromLong(-1);
  const int32_t device = device_of_context(context, &error);
  return device < 0 ? set_python_error(error) : PyLong_FromLong(device);
}

PyObject* set_current_device(PyObject*, PyObject* argument) {
  const long ordinal = PyLong_AsLong(argument);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  DriverError error;
  Device* device = ensure_driver(&error) ? device_at(static_cast<int32_t>(ordinal), &error) : nullptr;
  cuda::CUcontext context = device == nullptr ? nullptr : primary_context(device, &error);
  if (context == nullptr) return set_python_error(error);
  const cuda::CUresult result = driver().cuCtxSetCurrent(context);
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuCtxSetCurrent", "switching to " + device->text());
    return set_python_error(error);
  }
  Py_RETURN_NONE;
}

// Enters the context for `device` (-1: the caller's) and `stream`.
bool enter(int32_t* device, const void* stream, ContextGuard* guard, DriverError* error) {
  cuda::CUcontext context = nullptr;
  if (!ensure_driver(error)) return false;
  if (*device != -1 && device_at(*device, error) == nullptr) return false;
  return choose_context(device, stream, &context, error) && guard->enter(context, error);
}

// Waits for a stream, or for the device if `stream` is NULL; a safe point for unloading.
bool wait(int32_t device, void* stream, bool whole_device, DriverError* error) {
  ContextGuard guard;
  if (!enter(&device, stream, &guard, error)) return false;
  const cuda::CUresult result = whole_device
                                    ? driver().cuCtxSynchronize()
                                    : driver().cuStreamSynchronize(static_cast<cuda::CUstream>(stream));
  if (result != cuda::CUDA_SUCCESS) {
    return error->cuda(result, whole_device ? "cuCtxSynchronize" : "cuStreamSynchronize",
                       "waiting for cuda:" + std::to_string(device), explain_asynchronous_error(result));
  }
  drain_unload_queue();
  return guard.leave(error);
}

// The same, and raises what kernels have found. A kernel that found something may have lost its context.
PyObject* wait_and_raise(int32_t device, void* stream, bool whole_device) {
  DriverError error;
  bool done, found = false;
  {
    WithoutGil released;
    done = wait(device, stream, whole_device, &error);
    if (any_finding()) {
      ContextGuard guard;
      DriverError ignored;
      enter(&device, stream, &guard, &ignored);  // fails where the context is lost
      found = raise_finding_on(device);
    }
  }
  if (found) return raise_ffi_error(-1);
  if (!done) return set_python_error(error);
  Py_RETURN_NONE;
}

PyObject* synchronize(PyObject*, PyObject* arguments) {
  int device = -1;
  PyObject* stream = Py_None;
  if (!PyArg_ParseTuple(arguments, "i|O:synchronize", &device, &stream)) return nullptr;
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return nullptr;
  return wait_and_raise(device, value.v_ptr, stream == Py_None);
}

// At shutdown, where errors of failed work have no one to report to.
PyObject* synchronize_used(PyObject*, PyObject*) {
  for (int32_t ordinal = 0; ordinal < device_count(); ++ordinal) {
    if (device_or_null(ordinal)->primary.load() == nullptr) continue;
    DriverError ignored;
    WithoutGil released;
    wait(ordinal, nullptr, true, &ignored);
  }
  tell_findings();
  Py_RETURN_NONE;
}

PyObject* memory_info(PyObject*, PyObject* argument) {
  const long ordinal = PyLong_AsLong(argument);
  if (ordinal == -1 && PyErr_Occurred()) return nullptr;
  auto device = static_cast<int32_t>(ordinal);
  DriverError error;
  ContextGuard guard;
  if (!enter(&device, nullptr, &guard, &error)) return set_python_error(error);
  size_t free_bytes = 0, total_bytes = 0;
  cuda::CUresult result;
  {
    const WithoutGil released;
    result = driver().cuMemGetInfo(&free_bytes, &total_bytes);
  }
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuMemGetInfo", "asking for the free memory of cuda:" + std::to_string(device),
               explain_asynchronous_error(result));
    return set_python_error(error);
  }
  if (!guard.leave(&error)) return set_python_error(error);
  return Py_BuildValue("(nn)", static_cast<Py_ssize_t>(free_bytes), static_cast<Py_ssize_t>(total_bytes));
}

PyObject* is_capturing_stream(PyObject*, PyObject* stream) {
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return nullptr;
  DriverError error;
  ContextGuard guard;
  int32_t device = -1;
  if (!enter(&device, value.v_ptr, &guard, &error)) return set_python_error(error);
  const bool capturing = is_capturing(static_cast<cuda::CUstream>(value.v_ptr));
  if (!guard.leave(&error)) return set_python_error(error);
  return PyBool_FromLong(capturing);
}

PyObject* stream_handle(PyObject*, PyObject* stream) {
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return nullptr;
  return PyLong_FromVoidPtr(value.v_ptr);
}

// The device a stream's work runs on; -1 for the default streams, which follow the current context.
PyObject* stream_device(PyObject*, PyObject* stream) {
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return nullptr;
  if (!is_stream_handle(value.v_ptr)) return PyLong_FromLong(-1);
  DriverError error;
  cuda::CUcontext context = nullptr;
  if (!ensure_driver(&error)) return set_python_error(error);
  const int32_t device = device_of_stream(static_cast<cuda::CUstream>(value.v_ptr), &context, &error);
  return device < 0 ? set_python_error(error) : PyLong_FromLong(device);
}

PyObject* pointer_device(PyObject*, PyObject* argument) {
  const unsigned long long address = PyLong_AsUnsignedLongLong(argument);
  if (address == UINT64_MAX && PyErr_Occurred()) return nullptr;
  DriverError error;
  if (!ensure_driver(&error)) return set_python_error(error);
  return PyLong_FromLong(device_of_address(address));
}

PyObject* set_printf_buffer(PyObject*, PyObject* arguments) {
  int device = -1;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(arguments, "in:set_printf_buffer", &device, &bytes)) return nullptr;
  DriverError error;
  ContextGuard guard;
  if (!enter(&device, nullptr, &guard, &error)) return set_python_error(error);
  cuda::CUresult result;
  {
    const WithoutGil released;
    result = driver().cuCtxSetLimit(cuda::CU_LIMIT_PRINTF_FIFO_SIZE, static_cast<size_t>(bytes));
  }
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuCtxSetLimit", "setting printf's buffer to " + std::to_string(bytes) + " bytes");
    return set_python_error(error);
  }
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"device_attribute", attribute, METH_VARARGS,
     "device_attribute(device: int, attribute: int) -> int\n--\n\nA CUdevice_attribute."},
    {"device_architecture", architecture, METH_O,
     "device_architecture(device: int) -> str\n--\n\nThe architecture of weft's code there: sm_89, sm_90a."},
    {"device_name_and_memory", name_and_memory, METH_O,
     "device_name_and_memory(device: int) -> tuple[str, int]\n--\n\nThe name, and the memory in bytes."},
    {"current_device", current_device, METH_NOARGS,
     "current_device() -> int\n--\n\nThe device of the current context, or -1 without one."},
    {"set_current_device", set_current_device, METH_O,
     "set_current_device(device: int) -> None\n--\n\nMakes the primary context of the device current."},
    {"synchronize_used", synchronize_used, METH_NOARGS,
     "synchronize_used() -> None\n--\n\nWaits for all devices that this process has used."},
    {"synchronize", synchronize, METH_VARARGS,
     "synchronize(device: int, stream: object = None) -> None\n--\n\n"
     "Waits for a device (-1: the current one), or for a stream; then unloads the queued images."},
    {"memory_info", memory_info, METH_O,
     "memory_info(device: int) -> tuple[int, int]\n--\n\nFree and total bytes."},
    {"is_stream_capturing", is_capturing_stream, METH_O,
     "is_stream_capturing(stream: object) -> bool\n--\n\nWhether the stream is being captured into a graph."},
    {"stream_handle", stream_handle, METH_O,
     "stream_handle(stream: object) -> int\n--\n\nThe CUstream as a number."},
    {"stream_device", stream_device, METH_O,
     "stream_device(stream: object) -> int\n--\n\nThe device of a stream; -1 for the default streams."},
    {"pointer_device", pointer_device, METH_O,
     "pointer_device(address: int) -> int\n--\n\nThe device that the memory belongs to, or -1."},
    {"set_printf_buffer", set_printf_buffer, METH_VARARGS,
     "set_printf_buffer(device: int, bytes: int) -> None\n--\n\nThe size of the buffer of printf on a "
     "device."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_device(PyObject* module) {
  // Where the values and the text of a finding begin, and how long the text may be (DeviceReport).
  PyObject* layout = Py_BuildValue("(nnn)", static_cast<Py_ssize_t>(offsetof(DeviceReport, values)),
                                   static_cast<Py_ssize_t>(offsetof(DeviceReport, site)),
                                   static_cast<Py_ssize_t>(sizeof(DeviceReport::site)));
  if (layout == nullptr) return -1;
  const int result = PyModule_AddObjectRef(module, "DEVICE_REPORT_LAYOUT", layout);
  Py_DECREF(layout);
  return result != 0 ? result : PyModule_AddFunctions(module, kMethods);
}

}  // namespace weft
