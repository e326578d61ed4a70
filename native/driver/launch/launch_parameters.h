// SPDX-License-Identifier: Apache-2.0
//
// The parameters of one launch: Python arguments flattened, checked against the kernel and extracted into one
// buffer, and the scratch memory that the launch wants.
#ifndef WEFT_DRIVER_LAUNCH_PARAMETERS_H_
#define WEFT_DRIVER_LAUNCH_PARAMETERS_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <weft/runtime_table.h>

#include "driver/devices/binary.h"
#include "driver/launch/extractors.h"
#include "driver/launch/small_vector.h"

namespace weft {

constexpr size_t kInlineParameters = 32;  // more go to the heap

// The caller's arguments; borrowed.
struct LaunchArguments {
  PyObject* annotations = Py_None;
  PyObject* signature = nullptr;  // bytes
  PyObject* arguments = nullptr;
  PyObject* scratch[2] = {Py_None, Py_None};  // hidden last parameters; None: the kernel has none
  int check = kPointerDevice;
};

// The values of the parameters and the pointers to them that the driver takes.
struct Parameters {
  alignas(128) char inline_buffer[2048];
  SmallVector<char, 1> heap;
  SmallVector<PyObject*, kInlineParameters> objects;  // borrowed, flat
  SmallVector<void*, kInlineParameters> pointers;
  SmallVector<ParameterType, kInlineParameters> types;
  weft_scratch wanted[2];  // of hidden parameters whose memory is allocated for this launch
  int64_t wanted_count = 0;
};

// Extracts everything; hidden pointers come last. 0, or -1 with an exception that names the argument.
int extract_parameters(const LaunchArguments& given, const Binary& binary, Parameters* parameters);

// An int of at most 64 bits, NumPy's included. False with an exception that names it.
bool read_int(PyObject* object, const char* name, int64_t* value);

}  // namespace weft

#endif  // WEFT_DRIVER_LAUNCH_PARAMETERS_H_
