// SPDX-License-Identifier: Apache-2.0
//
// Both forms of managed tensor from one template. Only the versioned form has a read-only flag; legacy
// consumers of read-only memory are refused.
#include "python/tensors/dlpack_export.h"

#include <cstdlib>

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

// A consumer may request the tensor on another device, which would need a copy.
int check_device(PyObject* wanted, const DLTensor& tensor) {
  if (wanted == Py_None) return 0;
  int type, id;
  if (!PyTuple_Check(wanted) || !PyArg_ParseTuple(wanted, "ii:dl_device", &type, &id)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__dlpack__: expected a pair as dl_device");
    return -1;
  }
  if (type == static_cast<int>(tensor.device.device_type) && id == tensor.device.device_id) return 0;
  return refuse(PyExc_BufferError,
                "weft.ffi tensors are exported without a copy; this one is on device (%d, %d), not (%d, %d)",
                static_cast<int>(tensor.device.device_type), tensor.device.device_id, type, id);
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
  if (copy == Py_True) return refuse(PyExc_BufferError, "weft.ffi tensors are exported without a copy");
  if (check_device(device, tensor) != 0) return -1;
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
  if (!options.versioned && (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0) {
    keeper.drop(keeper.object);
    PyErr_SetString(
        PyExc_BufferError,
        "this tensor is read-only, which a DLPack capsule from before version 1.0 cannot express; export it "
        "with max_version=(1, 0)");
    return nullptr;
  }
  if (options.versioned) {
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

}  // namespace weft
