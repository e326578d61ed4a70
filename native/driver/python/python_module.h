// SPDX-License-Identifier: Apache-2.0
//
// The driver's part of weft._native: one function per file adds that file's names.
#ifndef WEFT_DRIVER_PYTHON_MODULE_H_
#define WEFT_DRIVER_PYTHON_MODULE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "driver/library/cuda_abi.h"

namespace weft {

class DeviceProgram;

// All of them, for module.cpp.
int add_driver(PyObject* module);

int add_driver_library(PyObject* module);  // python_library.cpp
int add_device_program(PyObject* module);  // python_program.cpp
int add_binary(PyObject* module);          // python_binary.cpp
int add_launch(PyObject* module);          // python_launch.cpp
int add_launch_scratch(PyObject* module);  // ../../python/interpreter.cpp
int add_device(PyObject* module);          // python_device.cpp
int add_memory(PyObject* module);          // python_memory.cpp
int add_copy(PyObject* module);            // python_copy.cpp
int add_event(PyObject* module);           // python_event.cpp
int add_tensor_map(PyObject* module);      // tensor_map.cpp

// Destroys an event, once it was reached; a failure is reported on stderr.
void destroy_event(cuda::CUevent event);

// The program inside a weft._native.DeviceProgram, borrowed; nullptr with TypeError for anything else.
DeviceProgram* device_program_of(PyObject* object);

// A handle given as a Python int. False with a TypeError or ValueError that names it, for anything else.
bool read_handle(PyObject* object, const char* name, void** handle);

// Loads a program on a device now: a dict from kernel names to handles, or nullptr with an exception.
PyObject* preload_device_program(DeviceProgram* program, int32_t ordinal, int32_t policy);
// The CUmodule (context policy) or CUlibrary of the code on a device, loaded now if it is not; an int.
PyObject* loaded_code_handle(DeviceProgram* program, int32_t ordinal, int32_t policy);

}  // namespace weft

#endif  // WEFT_DRIVER_PYTHON_MODULE_H_
