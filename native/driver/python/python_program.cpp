// SPDX-License-Identifier: Apache-2.0
//
// weft._native.DeviceProgram: a cubin with the names of its kernels, loaded on each device on first use.
#include <weft/runtime_table.h>

#include "driver/devices/device_program.h"
#include "driver/devices/unload_queue.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "python/type_object.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

struct ProgramObject {
  PyObject_HEAD DeviceProgram* program;  // one reference, owned
};

Type<ProgramObject> g_type;

DeviceProgram* program_of(PyObject* self) { return reinterpret_cast<ProgramObject*>(self)->program; }

bool read_names(PyObject* sequence, std::vector<std::string>* names) {
  PyObject* items = PySequence_Fast(sequence, "kernel_names must be a sequence of str");
  if (items == nullptr) return false;
  bool ok = true;
  for (Py_ssize_t index = 0; ok && index < PySequence_Fast_GET_SIZE(items); ++index) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(PySequence_Fast_GET_ITEM(items, index), &size);
    ok = text != nullptr;
    if (ok) names->emplace_back(text, static_cast<size_t>(size));
  }
  Py_DECREF(items);
  return ok;
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* const kNames[] = {"cubin",        "kernel_names",   "function_name",
                                       "architecture", "missing_driver", nullptr};
  Py_buffer cubin;
  PyObject* names = nullptr;
  const char* function_name = nullptr;
  const char* architecture = nullptr;
  const char* missing_driver = "";
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*Oss|s:DeviceProgram", const_cast<char**>(kNames),
                                   &cubin, &names, &function_name, &architecture, &missing_driver)) {
    return nullptr;
  }
  std::string code(static_cast<const char*>(cubin.buf), static_cast<size_t>(cubin.len));
  PyBuffer_Release(&cubin);
  std::vector<std::string> kernel_names;
  if (!read_names(names, &kernel_names)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  reinterpret_cast<ProgramObject*>(self)->program = new DeviceProgram(
      std::move(code), std::move(kernel_names), function_name, architecture, missing_driver);
  return self;
}

void release(PyObject* self) {
  DeviceProgram* program = program_of(self);
  if (program != nullptr) program->release();
}

// Loads on a device with one of its contexts current, and restores the caller's.
LoadedProgram* preload_program(DeviceProgram* program, int32_t ordinal, int32_t policy, DriverError* error) {
  if (!program->missing_driver().empty()) {
    error->runtime(program->missing_driver());
    return nullptr;
  }
  if (!ensure_driver(error)) return nullptr;
  Device* device = device_at(ordinal, error);
  if (device == nullptr) return nullptr;
  cuda::CUcontext context = primary_context(device, error);
  ContextGuard guard;
  if (context == nullptr || !guard.enter(context, error)) return nullptr;
  LoadedProgram* loaded = program->loaded(policy, ordinal);
  if (loaded == nullptr) loaded = program->load(policy, device, context, nullptr, error);
  return guard.leave(error) ? loaded : nullptr;
}

PyObject* preload(PyObject* self, PyObject* arguments) {
  int ordinal = 0;
  int policy = WEFT_LOAD_LIBRARY;
  if (!PyArg_ParseTuple(arguments, "i|i:preload", &ordinal, &policy)) return nullptr;
  return preload_device_program(program_of(self), ordinal, policy);
}

PyObject* is_loaded(PyObject* self, PyObject* arguments) {
  int ordinal = 0;
  int policy = WEFT_LOAD_LIBRARY;
  if (!PyArg_ParseTuple(arguments, "i|i:is_loaded", &ordinal, &policy)) return nullptr;
  if (ordinal < 0 || ordinal >= kMaxDevices) Py_RETURN_FALSE;
  return PyBool_FromLong(program_of(self)->loaded(policy, ordinal) != nullptr);
}

PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(program_of(self)); }

PyObject* get_kernel_names(PyObject* self, void*) {
  const std::vector<std::string>& names = program_of(self)->kernel_names();
  PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(names.size()));
  for (size_t index = 0; result != nullptr && index < names.size(); ++index) {
    PyObject* name =
        PyUnicode_FromStringAndSize(names[index].data(), static_cast<Py_ssize_t>(names[index].size()));
    if (name == nullptr) {
      Py_CLEAR(result);
    } else {
      PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(index), name);
    }
  }
  return result;
}

PyMethodDef kMethods[] = {
    {"preload", preload, METH_VARARGS,
     "preload(device: int, policy: int = 1) -> dict[str, int]\n--\n\n"
     "Loads the code on a device now; kernel handles by name."},
    {"is_loaded", is_loaded, METH_VARARGS,
     "is_loaded(device: int, policy: int = 1) -> bool\n--\n\nWhether the code is on that device."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kAttributes[] = {
    {"address", get_address, nullptr, "The value of weft_state.driver_state; valid while this object lives.",
     nullptr},
    {"kernel_names", get_kernel_names, nullptr, "The kernels, in the order of their numbers.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

constexpr char kDoc[] =
    "DeviceProgram(cubin: bytes, kernel_names: Sequence[str], function_name: str, architecture: str, "
    "missing_driver: str = '')\n--\n\n"
    "Device code of one image. Making one calls no driver; the bytes are copied.";

}  // namespace

DeviceProgram* device_program_of(PyObject* object) {
  if (Py_TYPE(object) == g_type.get()) return program_of(object);
  PyErr_Format(PyExc_TypeError, "expected a weft._native.DeviceProgram, received %.200s",
               Py_TYPE(object)->tp_name);
  return nullptr;
}

namespace {

// nullptr with an exception.
LoadedProgram* preload_without_gil(DeviceProgram* program, int32_t ordinal, int32_t policy) {
  DriverError error;
  LoadedProgram* loaded;
  {
    WithoutGil released;
    loaded = preload_program(program, ordinal, policy, &error);
  }
  if (loaded == nullptr) set_python_error(error);
  return loaded;
}

}  // namespace

PyObject* loaded_code_handle(DeviceProgram* program, int32_t ordinal, int32_t policy) {
  const LoadedProgram* loaded = preload_without_gil(program, ordinal, policy);
  if (loaded == nullptr) return nullptr;
  return PyLong_FromVoidPtr(loaded->module != nullptr ? static_cast<void*>(loaded->module)
                                                      : static_cast<void*>(program->library()));
}

PyObject* preload_device_program(DeviceProgram* program, int32_t ordinal, int32_t policy) {
  const LoadedProgram* loaded = preload_without_gil(program, ordinal, policy);
  if (loaded == nullptr) return nullptr;
  PyObject* handles = PyDict_New();
  for (size_t index = 0; handles != nullptr && index < loaded->kernel_count; ++index) {
    PyObject* handle = PyLong_FromVoidPtr(loaded->kernels[index].handle);
    if (handle == nullptr || PyDict_SetItemString(handles, loaded->kernels[index].name, handle) != 0) {
      Py_CLEAR(handles);
    }
    Py_XDECREF(handle);
  }
  return handles;
}

int add_device_program(PyObject* module) {
  return g_type.add(module, "weft._native.DeviceProgram", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                    {{Py_tp_doc, kDoc},
                     {Py_tp_new, create},
                     {Py_tp_dealloc, Type<ProgramObject>::dealloc<release>},
                     {Py_tp_methods, kMethods},
                     {Py_tp_getset, kAttributes}});
}

}  // namespace weft
