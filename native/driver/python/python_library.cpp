// SPDX-License-Identifier: Apache-2.0
//
// The driver library for Python: its file, whether it is open, what waits to be unloaded.
#include <cstring>

#include "driver/devices/devices.h"
#include "driver/devices/unload_queue.h"
#include "driver/launch/queue_room.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

PyObject* set_library(PyObject*, PyObject* path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path, &bytes) == 0) return nullptr;
  const std::string text = PyBytes_AS_STRING(bytes);
  Py_DECREF(bytes);
  DriverError error;
  if (!set_driver_path(text, &error)) return set_python_error(error);
  Py_RETURN_NONE;
}

PyObject* choose_launch_gil(PyObject*, PyObject* word) {
  const char* text = PyUnicode_Check(word) ? PyUnicode_AsUTF8(word) : "";
  if (text == nullptr) return nullptr;
  constexpr const char* kWords[] = {"auto", "hold", "release"};
  for (int index = 0; index < 3; ++index) {
    if (strcmp(text, kWords[index]) != 0) continue;
    set_launch_gil(static_cast<LaunchGil>(index));
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_ValueError, "%R, expected auto, hold or release", word);
}

PyObject* open(PyObject*, PyObject*) {
  DriverError error;
  bool opened;
  {
    WithoutGil released;
    opened = ensure_driver(&error);
  }
  if (!opened) return set_python_error(error);
  Py_RETURN_NONE;
}

PyObject* is_open(PyObject*, PyObject*) { return PyBool_FromLong(driver_is_ready()); }

PyObject* version(PyObject*, PyObject*) {
  DriverError error;
  if (!ensure_driver(&error)) return set_python_error(error);
  return PyLong_FromLong(driver_version());
}

PyObject* count(PyObject*, PyObject*) {
  DriverError error;
  if (!ensure_driver(&error)) return set_python_error(error);
  return PyLong_FromLong(device_count());
}

PyObject* drain(PyObject*, PyObject*) {
  int unloaded;
  {
    WithoutGil released;
    unloaded = drain_unload_queue();
  }
  return PyLong_FromLong(unloaded);
}

PyObject* pending(PyObject*, PyObject*) { return PyLong_FromLong(unload_queue_length()); }

PyMethodDef kMethods[] = {
    {"set_driver_library", set_library, METH_O,
     "set_driver_library(path: str) -> None\n--\n\n"
     "The file to open instead of libcuda.so.1 (empty: the default); RuntimeError once another is in use."},
    {"set_launch_gil", choose_launch_gil, METH_O,
     "set_launch_gil(word: str) -> None\n--\n\n"
     "Whether launches hold the GIL: `auto` (while the queue has room), `hold` or `release`."},
    {"open_driver", open, METH_NOARGS,
     "open_driver() -> None\n--\n\nOpens and initializes the CUDA driver; CudaError says why it cannot be "
     "used."},
    {"driver_is_open", is_open, METH_NOARGS,
     "driver_is_open() -> bool\n--\n\nWhether the CUDA driver is open and usable in this process."},
    {"driver_version", version, METH_NOARGS,
     "driver_version() -> int\n--\n\nThe newest CUDA that the driver supports: 12040 for 12.4. Opens it."},
    {"device_count", count, METH_NOARGS,
     "device_count() -> int\n--\n\nHow many devices the driver sees. Opens it."},
    {"drain_unloads", drain, METH_NOARGS,
     "drain_unloads() -> int\n--\n\nUnloads unused device code; returns how many pieces."},
    {"pending_unloads", pending, METH_NOARGS,
     "pending_unloads() -> int\n--\n\nThe number of pieces of device code waiting to be unloaded."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_driver_library(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
