// SPDX-License-Identifier: Apache-2.0
//
// One path for `launch`, `launch_ex` and `Launcher`.
#include "driver/launch/launch_parameters.h"

#include <cstring>

#include "driver/launch/launch_scratch.h"
#include "python/errors/ffi_error.h"

namespace weft {
namespace {

// The number of hidden parameters given by the caller; the profile scratch comes second.
size_t hidden_parameters(const LaunchArguments& given) {
  if (given.scratch[WEFT_SCRATCH_PROFILE] != Py_None) return 2;
  return given.scratch[WEFT_SCRATCH_GLOBAL] != Py_None ? 1 : 0;
}

// 0 or 1 of an annotation; -1 for anything else.
int flag_of(PyObject* annotation) {
  if (!PyLong_Check(annotation)) return -1;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(annotation, &overflow);
  return overflow == 0 && (value == 0 || value == 1) ? static_cast<int>(value) : -1;
}

// Appends the objects to pass to the kernel. An annotation is 0 (a constant, dropped), 1 (passed)
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

// The signature's types. Bytes that build_signature_metadata cannot have made are refused here: the rest uses
// the kind as an index and trusts the sizes.
int parameter_types(const LaunchArguments& given, const SmallVector<PyObject*, kInlineParameters>& flat,
                    SmallVector<ParameterType, kInlineParameters>* types) {
  if (!PyBytes_Check(given.signature) || PyBytes_GET_SIZE(given.signature) % sizeof(ParameterType) != 0)
    return refuse_signature(given.signature);
  const size_t count = static_cast<size_t>(PyBytes_GET_SIZE(given.signature)) / sizeof(ParameterType);
  if (count != flat.size()) {
    return refuse(PyExc_TypeError, "the signature has %zu parameters, received %zu arguments", count,
                  flat.size());
  }
  types->resize(count);
  if (count != 0) memcpy(types->data(), PyBytes_AS_STRING(given.signature), count * sizeof(ParameterType));
  for (const ParameterType& type : *types) {
    if (!is_parameter_type(type)) return refuse_signature(given.signature);
  }
  return 0;
}

// Checks counts and sizes against the kernel's code, if the driver can tell.
int check_parameters(const Binary& binary, const SmallVector<ParameterType, kInlineParameters>& types,
                     size_t hidden) {
  if (!binary.knows_parameters) return 0;
  const std::vector<size_t>& sizes = binary.parameter_bytes;
  if (sizes.size() != types.size() + hidden) {
    return refuse(PyExc_TypeError,
                  "%s takes %zu parameters, the signature has %zu and the launch gives %zu of scratch; give "
                  "0 for scratch that the kernel declares and does not need",
                  binary.kernel.name, sizes.size(), types.size(), hidden);
  }
  for (size_t index = types.size(); index < sizes.size(); ++index) {
    if (sizes[index] == sizeof(void*)) continue;
    return refuse(PyExc_TypeError, "parameter %zu of %s has %zu bytes, a pointer to scratch has 8", index,
                  binary.kernel.name, sizes[index]);
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

// The hidden parameter `kind`, which is number `index` of all: an address, or (bytes per block, alignment) of
// memory that this launch allocates. False with an exception.
bool extract_scratch(const LaunchArguments& given, int32_t kind, size_t index,
                     const ExtractionContext& context, Parameters* parameters, void* target) {
  static const char* const kNames[] = {"global_scratch", "profile_scratch"};
  PyObject* memory = given.scratch[kind];
  ParameterType pointer{};
  if (!parse_parameter_type("*i8", &pointer)) return false;
  if (!PyTuple_Check(memory)) return extract_parameter(memory, pointer, context, target) == 0;
  int64_t bytes = 0, alignment = 0;
  if (PyTuple_GET_SIZE(memory) != 2) {
    refuse(PyExc_TypeError, "%s is %R, expected an address or (bytes per block, alignment)", kNames[kind],
           memory);
    return false;
  }
  if (!read_int(PyTuple_GET_ITEM(memory, 0), kNames[kind], &bytes) ||
      !read_int(PyTuple_GET_ITEM(memory, 1), kNames[kind], &alignment)) {
    return false;
  }
  if (bytes < 0 || alignment < 1 || alignment > kMostScratchAlignment || (alignment & (alignment - 1)) != 0) {
    refuse(PyExc_ValueError, "%s is %R, expected at least 0 bytes, aligned to a power of two up to %lld",
           kNames[kind], memory, static_cast<long long>(kMostScratchAlignment));
    return false;
  }
  memset(target, 0, sizeof(void*));
  if (bytes != 0)
    parameters->wanted[parameters->wanted_count++] = {bytes, alignment, static_cast<int32_t>(index), kind};
  return true;
}

}  // namespace

int extract_parameters(const LaunchArguments& given, const Binary& binary, Parameters* parameters) {
  SmallVector<ParameterType, kInlineParameters>& types = parameters->types;
  if (flatten(given.arguments, given.annotations, &parameters->objects) != 0) return -1;
  if (parameter_types(given, parameters->objects, &types) != 0) return -1;
  if (check_parameters(binary, types, hidden_parameters(given)) != 0) return -1;
  // Both are always present: a driver that cannot tell the number of parameters may read them.
  constexpr size_t hidden = 2;
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
  const ExtractionContext context{binary.device->ordinal, given.check};
  size_t offset = 0;
  for (size_t index = 0; index < types.size(); ++index) {
    offset = align_up(offset, size_t{1} << types[index].log2_alignment);
    if (extract_parameter(parameters->objects[index], types[index], context, buffer + offset) != 0)
      return name_failed(binary.kernel.name, index);
    parameters->pointers.push_back(buffer + offset);
    offset += types[index].bytes;
  }
  offset = align_up(offset, sizeof(void*));
  for (int32_t kind = 0; kind < 2; ++kind) {
    const size_t index = parameters->pointers.size();
    if (!extract_scratch(given, kind, index, context, parameters, buffer + offset))
      return name_failed(binary.kernel.name, index);
    parameters->pointers.push_back(buffer + offset);
    offset += sizeof(void*);
  }
  return 0;
}

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

}  // namespace weft
