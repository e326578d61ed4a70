// SPDX-License-Identifier: Apache-2.0
//
// Launching from Python: `launch` with the parameters of Triton's bridge, `launch_ex` with any attributes.
// Both extract the parameters, call the hooks, and launch.
#include <cstring>

#include "driver/devices/binary.h"
#include "driver/launch/launch.h"
#include "driver/launch/launch_parameters.h"
#include "driver/launch/launch_scratch.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "python/errors/ffi_error.h"
#include "python/readers/stream.h"
#include "runtime/interpreter.h"
#include "runtime/launch/launch_hooks.h"
#include "runtime/launch/launch_limits.h"

namespace weft {
namespace {

constexpr Py_ssize_t kMostAttributes = 16;

// One launch in preparation. It borrows the caller's arguments, which outlive it.
struct PythonLaunch {
  cuda::CUfunction function = nullptr;
  void* stream = nullptr;
  weft_launch launch{};
  weft_launch_attribute attributes[kMostAttributes];  // set by add
  PyObject* metadata = Py_None;
  PyObject* enter_hook = Py_None;
  PyObject* exit_hook = Py_None;
  LaunchArguments given;
  bool release_gil = false;

  weft_launch_attribute* add(uint32_t id) {
    weft_launch_attribute* added = &attributes[launch.attribute_count++];
    *added = {id, 0, {}};
    launch.attributes = attributes;
    return added;
  }
};

int call_hook(PyObject* hook, PyObject* metadata) {
  if (hook == Py_None) return 0;
  Reference result(PyObject_CallOneArg(hook, metadata));
  return result ? 0 : -1;
}

// The exit hook after a failed launch: its own exception must not hide the launch's.
void call_exit_hook_after_error(const PythonLaunch& launch) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (call_hook(launch.exit_hook, launch.metadata) != 0) PyErr_WriteUnraisable(launch.exit_hook);
  PyErr_Restore(type, value, traceback);
}

// Finds the function's device and makes its context current; `foreign` describes foreign functions.
Binary* enter_function(const PythonLaunch& launch, Binary* foreign, ContextGuard* guard, DriverError* error) {
  if (!check_function_handle(launch.function, error) || !ensure_driver(error)) return nullptr;
  Binary* binary = find_binary(launch.function);
  if (binary != nullptr) {
    if (binary->is_unloaded) {
      error->kernel = binary->kernel.name;
      error->value("kernel " + std::string(binary->kernel.name) + " was unloaded");
      return nullptr;
    }
    int32_t device = binary->device->ordinal;
    cuda::CUcontext context = nullptr;
    if (is_stream_handle(launch.stream) && !choose_context(&device, launch.stream, &context, error))
      return nullptr;
    return guard->enter(binary->context, error) ? binary : nullptr;
  }
  int32_t device = -1;
  cuda::CUcontext context = nullptr;
  if (!choose_context(&device, launch.stream, &context, error) || !guard->enter(context, error))
    return nullptr;
  if (describe_foreign(launch.function, device_at(device, error), foreign)) return foreign;
  error->value("the function handle is not one of cuda:" + std::to_string(device));
  return nullptr;
}

int raise_driver_error(const DriverError& error) {
  set_python_error(error);
  return -1;
}

// The caller's own code has run and may have unloaded the function, which is then refused.
bool check_still_loaded(const Binary& binary, DriverError* error) {
  if (!binary.is_unloaded) return true;
  error->kernel = binary.kernel.name;
  return error->value(
      "launch of " + std::string(binary.kernel.name) +
      ": its module was unloaded by an argument, the allocator or the enter hook of this launch");
}

bool submit_alone(const PythonLaunch& launch, Binary* binary, void** pointers, DriverError* error) {
  auto stream = static_cast<cuda::CUstream>(launch.stream);
  if (!launch.release_gil)
    return launch_kernel(&binary->kernel, *binary->device, launch.launch, stream, true, pointers, error);
  WithoutGil released;
  return launch_kernel(&binary->kernel, *binary->device, launch.launch, stream, true, pointers, error);
}

// Reports the launch to a profiler's capture. 0, or -1 with an exception.
int submit(const PythonLaunch& launch, Binary* binary, void** pointers) {
  struct Submission {
    const PythonLaunch& launch;
    Binary* binary;
    void** pointers;
    DriverError error;
    bool has_failed;
  } submission{launch, binary, pointers, {}, false};
  auto run = [](void* data) -> int32_t {
    auto* given = static_cast<Submission*>(data);
    given->has_failed = !submit_alone(given->launch, given->binary, given->pointers, &given->error);
    return given->has_failed ? -1 : 0;
  };
  int32_t code;
  if (has_launch_observer()) {
    const LaunchFacts facts{binary->kernel.name, kDLCUDA, binary->device->ordinal, launch.stream,
                            &launch.launch};
    code = launch_observed(facts, run, &submission);
  } else {
    code = run(&submission);
  }
  if (submission.has_failed) return raise_driver_error(submission.error);
  if (code != 0) raise_ffi_error(code);
  return code;
}

// Allocates the launch's scratch, launches, frees it. 0, or -1 with an exception.
int run(const PythonLaunch& launch, Binary* binary, Parameters* parameters) {
  DriverError error;
  if (!check_still_loaded(*binary, &error)) return raise_driver_error(error);
  void** pointers = parameters->pointers.data();
  LaunchScratch scratch({binary->kernel.name, binary->device->ordinal,
                         static_cast<cuda::CUstream>(launch.stream), launch.given.check});
  for (int64_t index = 0; index < parameters->wanted_count; ++index) {
    const weft_scratch& wanted = parameters->wanted[index];
    void* slot = nullptr;
    if (const int code = scratch.take(wanted, launch.launch, &slot)) {
      raise_ffi_error(code);
      return -1;
    }
    memcpy(pointers[wanted.parameter], &slot, sizeof(slot));
  }
  // An allocator is the caller's own code too.
  if (!check_still_loaded(*binary, &error)) return raise_driver_error(error);
  if (submit(launch, binary, pointers) != 0) return -1;
  return scratch.give_back(&error) ? 0 : raise_driver_error(error);
}

bool check_hook(PyObject* hook, const char* name) {
  if (hook == Py_None || PyCallable_Check(hook)) return true;
  refuse(PyExc_TypeError, "%s: expected a function of one argument or None, received %s", name,
         Py_TYPE(hook)->tp_name);
  return false;
}

PyObject* perform(PythonLaunch* launch) {
  if (!check_hook(launch->enter_hook, "enter_hook") || !check_hook(launch->exit_hook, "exit_hook"))
    return nullptr;
  DriverError error;
  ContextGuard guard;
  Binary foreign;
  Binary* binary = enter_function(*launch, &foreign, &guard, &error);
  if (binary == nullptr) return set_python_error(error);
  const BinaryHold hold(binary);
  Parameters parameters;
  if (extract_parameters(launch->given, *binary, &parameters) != 0) return nullptr;
  if (!check_still_loaded(*binary, &error)) return set_python_error(error);
  launch->launch.kernel_name = binary->kernel.name;
  if (call_hook(launch->enter_hook, launch->metadata) != 0) return nullptr;
  if (run(*launch, binary, &parameters) != 0 || (!guard.leave(&error) && raise_driver_error(error) != 0)) {
    call_exit_hook_after_error(*launch);
    return nullptr;
  }
  if (call_hook(launch->exit_hook, launch->metadata) != 0) return nullptr;
  Py_RETURN_NONE;
}

// ---- reading the arguments of the two entry points

bool read_handles(PyObject* stream, PyObject* function, PythonLaunch* launch) {
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return false;
  launch->stream = value.v_ptr;
  void* handle = nullptr;
  if (!read_handle(function, "function", &handle)) return false;
  launch->function = static_cast<cuda::CUfunction>(handle);
  return true;
}

bool read_triple(PyObject* tuple, const char* name, int64_t* values) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != 3) {
    refuse(PyExc_TypeError, "%s: expected a tuple of three ints, received %R", name, tuple);
    return false;
  }
  for (Py_ssize_t index = 0; index < 3; ++index) {
    if (!read_int(PyTuple_GET_ITEM(tuple, index), name, &values[index])) return false;
  }
  return true;
}

// (num_warps, num_ctas, shared): blocks of warps, grid.x in clusters.
bool read_kernel_metadata(PyObject* tuple, PythonLaunch* launch) {
  int64_t values[3];
  if (!read_triple(tuple, "(num_warps, num_ctas, shared)", values)) return false;
  const int64_t warps = values[0], blocks = values[1];
  if (warps < 1 || warps > kMostThreads / kWarpSize || blocks < 1 || blocks > 65535) {
    refuse(PyExc_ValueError,
           "(num_warps, num_ctas, shared) is %R, expected 1 to 32 warps and at least 1 block", tuple);
    return false;
  }
  launch->launch.block[0] = kWarpSize * warps;
  launch->launch.block[1] = launch->launch.block[2] = 1;
  launch->launch.shared_memory_bytes = values[2];
  if (__builtin_mul_overflow(launch->launch.grid[0], blocks, &launch->launch.grid[0])) {
    refuse(PyExc_ValueError, "gridX times num_ctas does not fit 64 bits");
    return false;
  }
  if (blocks == 1) return true;
  const uint32_t cluster[3] = {static_cast<uint32_t>(blocks), 1, 1};
  memcpy(launch->add(cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)->value, cluster, sizeof(cluster));
  return true;
}

bool add_flag(PyObject* truth, uint32_t id, PythonLaunch* launch) {
  const int value = PyObject_IsTrue(truth);
  if (value < 0) return false;
  if (value != 0) memcpy(launch->add(id)->value, &value, sizeof(value));
  return true;
}

// launch(gridX, gridY, gridZ, stream, function, cooperative, programmatic, (num_warps, num_ctas, shared),
//        launch_metadata, enter_hook, exit_hook, global_scratch, profile_scratch, arg_annotations, signature,
//        args, pointer_check)
PyObject* launch_in_order(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 17) {
    return PyErr_Format(PyExc_TypeError, "launch takes 17 arguments, received %zd", count);
  }
  PythonLaunch launch;
  static const char* const kGrid[] = {"gridX", "gridY", "gridZ"};
  for (int axis = 0; axis < 3; ++axis) {
    if (!read_int(values[axis], kGrid[axis], &launch.launch.grid[axis])) return nullptr;
  }
  if (!read_handles(values[3], values[4], &launch) ||
      !add_flag(values[5], cuda::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &launch) ||
      !add_flag(values[6], cuda::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &launch) ||
      !read_kernel_metadata(values[7], &launch)) {
    return nullptr;
  }
  launch.metadata = values[8];
  launch.enter_hook = values[9];
  launch.exit_hook = values[10];
  launch.given.scratch[0] = values[11];
  launch.given.scratch[1] = values[12];
  launch.given.annotations = values[13];
  launch.given.signature = values[14];
  launch.given.arguments = values[15];
  int64_t check = 0;
  if (!read_int(values[16], "pointer_check", &check)) return nullptr;
  launch.given.check = static_cast<int>(check);
  return perform(&launch);
}

// A sequence of (id, bytes of at most 64).
bool read_attributes(PyObject* sequence, PythonLaunch* launch) {
  Reference items(PySequence_Fast(sequence, "attributes: expected a sequence of (id, bytes)"));
  if (!items) return false;
  if (PySequence_Fast_GET_SIZE(items.get()) > kMostAttributes) {
    refuse(PyExc_ValueError, "attributes: expected at most %zd, received %zd", kMostAttributes,
           PySequence_Fast_GET_SIZE(items.get()));
    return false;
  }
  for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(items.get()); ++index) {
    unsigned int id = 0;
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), index);
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "Iy#", &id, &bytes, &size) || size > 64) {
      if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        refuse(PyExc_TypeError, "attributes[%zd]: expected (id, at most 64 bytes), received %R", index, item);
      }
      return false;
    }
    memcpy(launch->add(id)->value, bytes, static_cast<size_t>(size));
  }
  return true;
}

PyObject* launch_ex(PyObject*, PyObject* arguments) {
  PythonLaunch launch;
  PyObject *function, *grid, *block, *stream, *attributes, *scratch;
  long long shared = 0;
  int release_gil = 0;
  if (!PyArg_ParseTuple(arguments, "OOOLOOOOOOOOOip:launch_ex", &function, &grid, &block, &shared, &stream,
                        &attributes, &launch.given.signature, &launch.given.annotations,
                        &launch.given.arguments, &launch.metadata, &launch.enter_hook, &launch.exit_hook,
                        &scratch, &launch.given.check, &release_gil)) {
    return nullptr;
  }
  launch.launch.shared_memory_bytes = shared;
  launch.release_gil = release_gil != 0;
  if (!read_handles(stream, function, &launch) || !read_triple(grid, "grid", launch.launch.grid) ||
      !read_triple(block, "block", launch.launch.block) || !read_attributes(attributes, &launch)) {
    return nullptr;
  }
  if (scratch != Py_None) {
    if (!PyTuple_Check(scratch) || PyTuple_GET_SIZE(scratch) != 2) {
      refuse(PyExc_TypeError, "scratch is %R, expected (global, profile) or None", scratch);
      return nullptr;
    }
    launch.given.scratch[0] = PyTuple_GET_ITEM(scratch, 0);
    launch.given.scratch[1] = PyTuple_GET_ITEM(scratch, 1);
  }
  return perform(&launch);
}

PyObject* build_signature_metadata(PyObject*, PyObject* names) {
  Reference items(PySequence_Fast(names, "build_signature_metadata: expected a sequence of type names"));
  if (!items) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.get());
  Reference bytes(PyBytes_FromStringAndSize(nullptr, count * static_cast<Py_ssize_t>(sizeof(ParameterType))));
  if (!bytes) return nullptr;
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.get(), index);
    if (!PyUnicode_Check(item)) {
      refuse(PyExc_TypeError, "types[%zd] is %R, expected a type name", index, item);
      return nullptr;
    }
    const char* name = PyUnicode_AsUTF8(item);
    ParameterType type{};
    if (name == nullptr || !parse_parameter_type(name, &type)) return nullptr;
    memcpy(PyBytes_AS_STRING(bytes.get()) + index * static_cast<Py_ssize_t>(sizeof(type)), &type,
           sizeof(type));
  }
  return bytes.release();
}

PyMethodDef kMethods[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_in_order)), METH_FASTCALL,
     "launch(gridX, gridY, gridZ, stream, function, cooperative, programmatic, kernel_metadata, "
     "launch_metadata, "
     "enter_hook, exit_hook, global_scratch, profile_scratch, arg_annotations, signature, args, "
     "pointer_check)\n--\n\n"
     "Launches a function of load_binary; see weft.driver.launch."},
    {"launch_ex", launch_ex, METH_VARARGS,
     "launch_ex(function, grid, block, shared_memory_bytes, stream, attributes, signature, annotations, "
     "args, "
     "metadata, enter_hook, exit_hook, scratch, pointer_check, release_gil)\n--\n\n"
     "Launches with any attributes; see weft.driver.launch_ex."},
    {"build_signature_metadata", build_signature_metadata, METH_O,
     "build_signature_metadata(types: Sequence[str]) -> bytes\n--\n\nFour bytes per parameter, for launch."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_launch(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
