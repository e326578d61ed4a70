// SPDX-License-Identifier: Apache-2.0
//
// Launching from Python: `launch` in the order of Triton's bridge, `launch_ex` with any attributes. Both
// flatten the arguments, extract them into one buffer, call the hooks around, and launch.
#include <cstring>

#include "driver/binary.h"
#include "driver/driver_library.h"
#include "driver/extractors.h"
#include "driver/gil.h"
#include "driver/launch.h"
#include "driver/python_module.h"
#include "driver/small_vector.h"
#include "python/ffi_error.h"
#include "python/stream.h"

namespace weft {
namespace {

constexpr Py_ssize_t kMostAttributes = 16;
constexpr int64_t kWarp = 32;
constexpr size_t kInlineParameters = 32;  // more than these are kept on the heap

// One launch while it is being put together. Everything borrowed outlives it: the caller's arguments.
struct PythonLaunch {
  cuda::CUfunction function = nullptr;
  void* stream = nullptr;
  weft_launch launch{};
  weft_launch_attribute attributes[kMostAttributes];  // set by add
  PyObject* metadata = Py_None;
  PyObject* enter_hook = Py_None;
  PyObject* exit_hook = Py_None;
  PyObject* annotations = Py_None;
  PyObject* signature = nullptr;  // bytes
  PyObject* arguments = nullptr;
  PyObject* scratch[2] = {nullptr, nullptr};  // hidden last parameters, or NULL
  int check = kPointerDevice;
  bool release_gil = false;

  weft_launch_attribute* add(uint32_t id) {
    weft_launch_attribute* added = &attributes[launch.attribute_count++];
    *added = {id, 0, {}};
    launch.attributes = attributes;
    return added;
  }
};

// The values of the parameters and the pointers to them that the driver takes.
struct Parameters {
  alignas(128) char inline_buffer[2048];
  SmallVector<char, 1> heap;
  SmallVector<PyObject*, kInlineParameters> objects;  // borrowed, flat
  SmallVector<void*, kInlineParameters> pointers;
  SmallVector<ParameterType, kInlineParameters> types;
};

// 0 or 1 of an annotation; -1 for anything else.
int flag_of(PyObject* annotation) {
  if (!PyLong_Check(annotation)) return -1;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(annotation, &overflow);
  return overflow == 0 && (value == 0 || value == 1) ? static_cast<int>(value) : -1;
}

// Appends the objects that are passed to the kernel. An annotation is 0 (a constant, dropped), 1 (passed)
// or a tuple of annotations for a tuple; None passes everything and flattens every tuple.
int flatten(PyObject* arguments, PyObject* annotations, SmallVector<PyObject*, kInlineParameters>* flat) {
  if (!PyTuple_Check(arguments)) {
    return refuse(PyExc_TypeError, "expected a tuple of arguments, received %s", Py_TYPE(arguments)->tp_name);
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
  const bool has_annotations = annotations != Py_None;
  if (has_annotations && !PyTuple_Check(annotations) && !PyList_Check(annotations)) {
    return refuse(PyExc_TypeError, "arg_annotations is %R, expected what annotate_arguments returns, or None",
                  annotations);
  }
  if (has_annotations && PySequence_Fast_GET_SIZE(annotations) != count) {
    return refuse(PyExc_TypeError, "expected %zd arguments to match the signature, received %zd",
                  PySequence_Fast_GET_SIZE(annotations), count);
  }
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* argument = PyTuple_GET_ITEM(arguments, index);
    PyObject* annotation = has_annotations ? PySequence_Fast_GET_ITEM(annotations, index) : Py_None;
    if (has_annotations ? PyTuple_Check(annotation) : PyTuple_Check(argument)) {
      if (flatten(argument, annotation, flat) != 0) return -1;
      continue;
    }
    const int is_passed = has_annotations ? flag_of(annotation) : 1;
    if (is_passed < 0) {
      return refuse(PyExc_TypeError, "arg_annotations[%zd] is %R, expected 0, 1 or a tuple of these", index,
                    annotation);
    }
    if (is_passed == 1) flat->push_back(argument);
  }
  return 0;
}

int refuse_signature(PyObject* signature) {
  return refuse(PyExc_TypeError, "expected a signature from build_signature_metadata, received %R",
                signature);
}

// The signature's types. Bytes that build_signature_metadata cannot have made are refused here: what follows
// takes the kind as an index and trusts the sizes.
int parameter_types(const PythonLaunch& launch, const SmallVector<PyObject*, kInlineParameters>& flat,
                    SmallVector<ParameterType, kInlineParameters>* types) {
  if (!PyBytes_Check(launch.signature) || PyBytes_GET_SIZE(launch.signature) % sizeof(ParameterType) != 0)
    return refuse_signature(launch.signature);
  const size_t count = static_cast<size_t>(PyBytes_GET_SIZE(launch.signature)) / sizeof(ParameterType);
  if (count != flat.size()) {
    return refuse(PyExc_TypeError, "the signature has %zu parameters, received %zu arguments", count,
                  flat.size());
  }
  types->resize(count);
  if (count != 0) memcpy(types->data(), PyBytes_AS_STRING(launch.signature), count * sizeof(ParameterType));
  for (const ParameterType& type : *types) {
    if (!is_parameter_type(type)) return refuse_signature(launch.signature);
  }
  return 0;
}

// Counts and sizes against what the kernel's code says, where the driver can tell.
int check_parameters(const Binary& binary, const SmallVector<ParameterType, kInlineParameters>& types,
                     size_t hidden) {
  if (!binary.knows_parameters) return 0;
  const std::vector<size_t>& sizes = binary.parameter_bytes;
  bool counts = sizes.size() >= types.size() && sizes.size() <= types.size() + hidden;
  for (size_t index = types.size(); counts && index < sizes.size(); ++index)
    counts = sizes[index] == sizeof(void*);
  if (!counts) {
    return refuse(PyExc_TypeError, "%s takes %zu parameters, the signature has %zu", binary.kernel.name,
                  sizes.size(), types.size());
  }
  for (size_t index = 0; index < types.size(); ++index) {
    if (fits_parameter(types[index], sizes[index])) continue;
    return refuse(PyExc_TypeError, "parameter %zu of %s has %zu bytes, the signature's %s has %d", index,
                  binary.kernel.name, sizes[index], parameter_type_name(types[index]),
                  int{types[index].bytes});
  }
  return 0;
}

size_t align_up(size_t offset, size_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

int name_failed(const char* kernel, size_t index) {
  Reference place(PyUnicode_FromFormat("launch of %s", kernel));
  if (place) name_argument(place.get(), static_cast<Py_ssize_t>(index), nullptr);
  return -1;
}

// Extracts everything; hidden pointers come last.
int extract_all(const PythonLaunch& launch, const Binary& binary, Parameters* parameters) {
  SmallVector<ParameterType, kInlineParameters>& types = parameters->types;
  if (flatten(launch.arguments, launch.annotations, &parameters->objects) != 0) return -1;
  if (parameter_types(launch, parameters->objects, &types) != 0) return -1;
  const size_t hidden = launch.scratch[0] == nullptr ? 0 : 2;
  if (check_parameters(binary, types, hidden) != 0) return -1;
  ParameterType pointer{};
  if (!parse_parameter_type("*i8", &pointer)) return -1;
  size_t bytes = 0;
  for (const ParameterType& type : types)
    bytes = align_up(bytes, size_t{1} << type.log2_alignment) + type.bytes;
  bytes = align_up(bytes, 8) + 8 * hidden;
  char* buffer = parameters->inline_buffer;
  if (bytes > sizeof(parameters->inline_buffer)) {
    parameters->heap.resize(bytes + 128);
    buffer = parameters->heap.data();
    buffer += align_up(reinterpret_cast<uintptr_t>(buffer), 128) - reinterpret_cast<uintptr_t>(buffer);
  }
  const ExtractionContext context{binary.device->ordinal, launch.check};
  size_t offset = 0;
  for (size_t index = 0; index < types.size() + hidden; ++index) {
    const bool is_hidden = index >= types.size();
    const ParameterType& type = is_hidden ? pointer : types[index];
    PyObject* object = is_hidden ? launch.scratch[index - types.size()] : parameters->objects[index];
    offset = align_up(offset, size_t{1} << type.log2_alignment);
    if (extract_parameter(object, type, context, buffer + offset) != 0)
      return name_failed(binary.kernel.name, index);
    parameters->pointers.push_back(buffer + offset);
    offset += type.bytes;
  }
  return 0;
}

int call_hook(PyObject* hook, PyObject* metadata) {
  if (hook == Py_None) return 0;
  Reference result(PyObject_CallOneArg(hook, metadata));
  return result ? 0 : -1;
}

// The exit hook after a launch that failed: its own exception must not hide the launch's.
void call_exit_hook_after_error(const PythonLaunch& launch) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (call_hook(launch.exit_hook, launch.metadata) != 0) PyErr_WriteUnraisable(launch.exit_hook);
  PyErr_Restore(type, value, traceback);
}

// Finds the function's device and makes its context current; `foreign` describes functions of others.
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

// The caller's own code ran meanwhile and may have unloaded the function, which is refused from then on.
bool check_still_loaded(const Binary& binary, DriverError* error) {
  if (!binary.is_unloaded) return true;
  error->kernel = binary.kernel.name;
  return error->value("launch of " + std::string(binary.kernel.name) +
                      ": its module was unloaded by an argument or the enter hook of this launch");
}

bool run(PythonLaunch* launch, Binary* binary, Parameters* parameters, DriverError* error) {
  if (!check_still_loaded(*binary, error)) return false;
  auto stream = static_cast<cuda::CUstream>(launch->stream);
  void** pointers = parameters->pointers.data();
  if (!launch->release_gil) {
    return launch_kernel(&binary->kernel, *binary->device, launch->launch, stream, true, pointers, error);
  }
  WithoutGil released;
  return launch_kernel(&binary->kernel, *binary->device, launch->launch, stream, true, pointers, error);
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
  if (extract_all(*launch, *binary, &parameters) != 0) return nullptr;
  if (!check_still_loaded(*binary, &error)) return set_python_error(error);
  launch->launch.kernel_name = binary->kernel.name;
  if (call_hook(launch->enter_hook, launch->metadata) != 0) return nullptr;
  if (!run(launch, binary, &parameters, &error) || !guard.leave(&error)) {
    set_python_error(error);
    call_exit_hook_after_error(*launch);
    return nullptr;
  }
  if (call_hook(launch->exit_hook, launch->metadata) != 0) return nullptr;
  Py_RETURN_NONE;
}

// ---- reading the arguments of the two entry points

bool read_int(PyObject* object, const char* name, int64_t* value) {
  int overflow = 0;
  Reference integer(PyNumber_Index(object));
  if (!integer) {
    refuse(PyExc_TypeError, "%s: expected an int, received %s", name, Py_TYPE(object)->tp_name);
    return false;
  }
  *value = PyLong_AsLongLongAndOverflow(integer.get(), &overflow);
  if (overflow == 0) return true;
  refuse(PyExc_ValueError, "%s is %R, which is out of range", name, object);
  return false;
}

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
  if (warps < 1 || warps > 32 || blocks < 1 || blocks > 65535) {
    refuse(PyExc_ValueError,
           "(num_warps, num_ctas, shared) is %R, expected 1 to 32 warps and at least 1 block", tuple);
    return false;
  }
  launch->launch.block[0] = kWarp * warps;
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
//        args)
PyObject* launch_in_order(PyObject*, PyObject* const* values, Py_ssize_t count) {
  if (count != 16) {
    return PyErr_Format(PyExc_TypeError, "launch takes 16 arguments, received %zd", count);
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
  launch.scratch[0] = values[11];
  launch.scratch[1] = values[12];
  launch.annotations = values[13];
  launch.signature = values[14];
  launch.arguments = values[15];
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
                        &attributes, &launch.signature, &launch.annotations, &launch.arguments,
                        &launch.metadata, &launch.enter_hook, &launch.exit_hook, &scratch, &launch.check,
                        &release_gil)) {
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
    launch.scratch[0] = PyTuple_GET_ITEM(scratch, 0);
    launch.scratch[1] = PyTuple_GET_ITEM(scratch, 1);
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
      refuse(PyExc_TypeError, "types[%zd] is %R, expected the name of a type", index, item);
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
     "enter_hook, exit_hook, global_scratch, profile_scratch, arg_annotations, signature, args)\n--\n\n"
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
