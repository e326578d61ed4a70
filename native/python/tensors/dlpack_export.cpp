// SPDX-License-Identifier: Apache-2.0
//
// Both forms of managed tensor from one template. Only the versioned form has a read-only flag; legacy
// consumers of read-only memory are refused.
#include "python/tensors/dlpack_export.h"

#include <cstdlib>

#include "driver/python/tensor_memory.h"
#include "python/tensors/dlpack_consumer.h"
#include "python/tensors/tensor_cell.h"
#include "runtime/describe.h"

namespace weft {
namespace {

template <typename Managed>
struct Exported {
  Managed managed;  // first: a deleter is given its address
  Keeper keeper;
  int64_t dims[];  // shape, then strides
};

template <typename Managed>
void delete_exported(Managed* managed) {
  auto* exported = reinterpret_cast<Exported<Managed>*>(managed);
  exported->keeper.drop(exported->keeper.object);
  std::free(exported);
}

template <typename Managed>
Managed* new_exported(const DLTensor& tensor, Keeper keeper) {
  auto rank = static_cast<size_t>(tensor.ndim);
  void* memory = std::calloc(1, sizeof(Exported<Managed>) + sizeof(int64_t) * 2 * rank);
  if (memory == nullptr) {
    keeper.drop(keeper.object);
    PyErr_NoMemory();
    return nullptr;
  }
  auto* exported = static_cast<Exported<Managed>*>(memory);
  exported->keeper = keeper;
  exported->managed.deleter = delete_exported<Managed>;
  DLTensor* copy = &exported->managed.dl_tensor;
  *copy = tensor;
  copy->shape = exported->dims;
  copy->strides = exported->dims + rank;
  int64_t stride = 1;
  for (size_t axis = rank; axis-- > 0;) {
    copy->shape[axis] = tensor.shape[axis];
    copy->strides[axis] = tensor.strides != nullptr ? tensor.strides[axis] : stride;
    stride *= tensor.shape[axis];
  }
  return &exported->managed;
}

// An unconsumed capsule still owns its contents.
template <typename Managed>
void delete_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}
void delete_versioned_capsule(PyObject* capsule) {
  delete_capsule<DLManagedTensorVersioned>(capsule, "dltensor_versioned");
}
void delete_legacy_capsule(PyObject* capsule) { delete_capsule<DLManagedTensor>(capsule, "dltensor"); }

int read_device(PyObject* wanted, DLDevice* device) {
  int type, id;
  if (wanted == Py_None) return 0;
  if (!PyTuple_Check(wanted) || !PyArg_ParseTuple(wanted, "ii:dl_device", &type, &id)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__dlpack__: expected a pair as dl_device");
    return -1;
  }
  *device = {static_cast<DLDeviceType>(type), id};
  return 0;
}

// Whether a copy is due: it was asked for, or the tensor is wanted on another device. 0, or -1 with an
// exception.
int read_copy(PyObject* copy, const DLTensor& tensor, ExportOptions* options) {
  if (copy != Py_None && !PyBool_Check(copy)) {
    return refuse(PyExc_TypeError, "__dlpack__: expected True, False or None as copy, received %s",
                  Py_TYPE(copy)->tp_name);
  }
  const DLDevice there = tensor.device;
  DLDevice* wanted = &options->device;
  const bool moves = wanted->device_type != there.device_type || wanted->device_id != there.device_id;
  options->copies = moves || copy == Py_True;
  if (moves && copy == Py_False) {
    return refuse(PyExc_BufferError, "__dlpack__: copy=False, and this tensor is on %s, not on %s",
                  describe_device(there).c_str(), describe_device(*wanted).c_str());
  }
  const bool reachable = wanted->device_type == kDLCPU || wanted->device_type == kDLCUDA || !moves;
  if (options->copies && !(reachable && is_copied_by_weft(there))) {
    return refuse(PyExc_BufferError,
                  "__dlpack__: weft copies to the host and to CUDA devices, not from %s to %s",
                  describe_device(there).c_str(), describe_device(*wanted).c_str());
  }
  if (options->copies && wanted->device_type != kDLCUDA) *wanted = {kDLCPU, 0};
  return 0;
}

// By the array API standard: None is CUDA's legacy default stream, as is 1; -1 asks for no order.
int read_stream(PyObject* stream, const DLTensor& tensor, ExportOptions* options) {
  options->orders = options->device.device_type == kDLCUDA;
  if (stream == Py_None) return 0;
  if (!PyLong_Check(stream) || PyBool_Check(stream)) {
    return refuse(PyExc_TypeError, "__dlpack__: expected an int or None as stream, received %s",
                  Py_TYPE(stream)->tp_name);
  }
  if (tensor.device.device_type == kDLCPU && options->device.device_type == kDLCPU) {
    return refuse(PyExc_ValueError, "__dlpack__: stream is %S, expected None on the host", stream);
  }
  const long long number = PyLong_AsLongLong(stream);
  if (number == -1 && PyErr_Occurred()) return -1;
  if (number < -1 || (number == 0 && options->orders)) {
    return refuse(
        PyExc_ValueError,
        "__dlpack__: stream is %lld, expected -1 for no order, 1 for the legacy default stream, 2 for the "
        "thread's own, or the address of a stream",
        number);
  }
  options->orders = options->orders && number != -1;
  options->stream = reinterpret_cast<void*>(number);
  return 0;
}

PyObject* new_capsule(const DLTensor& tensor, uint64_t flags, bool versioned, Keeper keeper) {
  if (!versioned && (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0) {
    keeper.drop(keeper.object);
    PyErr_SetString(
        PyExc_BufferError,
        "this tensor is read-only, which a DLPack capsule from before version 1.0 cannot express; export it "
        "with max_version=(1, 0)");
    return nullptr;
  }
  if (versioned) {
    DLManagedTensorVersioned* managed = export_versioned(tensor, flags, keeper);
    if (managed == nullptr) return nullptr;
    PyObject* capsule = PyCapsule_New(managed, "dltensor_versioned", delete_versioned_capsule);
    if (capsule == nullptr) managed->deleter(managed);
    return capsule;
  }
  DLManagedTensor* managed = export_legacy(tensor, keeper);
  if (managed == nullptr) return nullptr;
  PyObject* capsule = PyCapsule_New(managed, "dltensor", delete_legacy_capsule);
  if (capsule == nullptr) managed->deleter(managed);
  return capsule;
}

}  // namespace

DLManagedTensorVersioned* export_versioned(const DLTensor& tensor, uint64_t flags, Keeper keeper) {
  auto* managed = new_exported<DLManagedTensorVersioned>(tensor, keeper);
  if (managed == nullptr) return nullptr;
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->flags = flags;
  return managed;
}

DLManagedTensor* export_legacy(const DLTensor& tensor, Keeper keeper) {
  return new_exported<DLManagedTensor>(tensor, keeper);
}

int parse_export_options(PyObject* arguments, PyObject* keywords, const DLTensor& tensor,
                         ExportOptions* options) {
  static const char* kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", const_cast<char**>(kNames),
                                   &stream, &version, &device, &copy)) {
    return -1;
  }
  const Py_ssize_t given = keywords == nullptr ? 0 : PyDict_GET_SIZE(keywords);
  options->is_bare =
      given == (keywords != nullptr && PyDict_GetItemString(keywords, "max_version") != nullptr);
  options->device = tensor.device;
  if (read_device(device, &options->device) != 0 || read_copy(copy, tensor, options) != 0 ||
      read_stream(stream, tensor, options) != 0) {
    return -1;
  }
  if (version == Py_None) return 0;
  long major = PyTuple_Check(version) && PyTuple_GET_SIZE(version) > 0
                   ? PyLong_AsLong(PyTuple_GET_ITEM(version, 0))
                   : -2;
  if (major == -1 && PyErr_Occurred()) return -1;
  if (major < 0) return refuse(PyExc_TypeError, "__dlpack__: expected a pair of numbers as max_version");
  options->versioned = major >= 1;
  return 0;
}

PyObject* export_capsule(const DLTensor& tensor, uint64_t flags, const ExportOptions& options,
                         Keeper keeper) {
  if (!options.copies && check_consumer(tensor, options.versioned, options.is_bare) != 0) {
    keeper.drop(keeper.object);
    return nullptr;
  }
  TVMFFIObject* copy = options.copies ? copied_tensor(tensor, options.device) : nullptr;
  if (options.copies) keeper.drop(keeper.object);
  if (options.copies && copy == nullptr) return nullptr;
  if (copy != nullptr) keeper = {copy, drop_handle};
  if (options.orders && order_consumer(options.device.device_id, options.stream) != 0) {
    keeper.drop(keeper.object);
    return nullptr;
  }
  return copy == nullptr
             ? new_capsule(tensor, flags, options.versioned, keeper)
             : new_capsule(*tensor_of(copy), DLPACK_FLAG_BITMASK_IS_COPIED, options.versioned, keeper);
}

}  // namespace weft
