// SPDX-License-Identifier: Apache-2.0
//
// Tensors as arrays of the program's own library, without a copy.
#include "ffi_library.h"
#include "python/errors/ffi_error.h"
#include "python/objects/object.h"
#include "python/readers/readers.h"
#include "python/results/result.h"
#include "python/tensors/dlpack_consumer.h"
#include "python/tensors/dlpack_export.h"
#include "python/tensors/tensor_cell.h"
#include "python/values/interop.h"

namespace weft {
namespace {

// For torch and other libraries with an exchange API, through its own import function.
PyObject* import_managed(TVMFFIObject* tensor, const TypeEntry& entry) {
  if (entry.family == Family::kTorch && runs_backward(*tensor_of(tensor))) {
    refuse_backward();
    return nullptr;
  }
  const DLPackExchangeAPI* api = entry.exchange;
  DLManagedTensorVersioned* managed =
      export_versioned(*tensor_of(tensor), export_flags(tensor, true), keep_handle(tensor));
  if (managed == nullptr) return nullptr;
  void* object = nullptr;
  if (api->managed_tensor_to_py_object_no_sync(managed, &object) == 0) return static_cast<PyObject*>(object);
  managed->deleter(managed);
  return nullptr;
}

// NumPy's own types; those of ml_dtypes go through weft.ffi.tensor.
bool numpy_has_type(DLDataType type) {
  bool known = type.code == kDLInt || type.code == kDLUInt || type.code == kDLBool ||
               type.code == kDLComplex || (type.code == kDLFloat && type.bits <= 64);
  return known && type.lanes == 1 && type.bits >= 8;
}

PyObject* import_into_numpy(PyObject* source, const DLTensor& tensor) {
  if (tensor.device.device_type != kDLCPU) return Py_NewRef(source);
  if (numpy_has_type(tensor.dtype)) {
    PyObject* numpy = imported_module("numpy");
    return numpy == nullptr ? Py_NewRef(source)
                            : PyObject_CallMethodOneArg(numpy, g_names.from_dlpack, source);
  }
  Reference helper(PyImport_ImportModule("weft.ffi.tensor"));
  return helper ? PyObject_CallMethod(helper.get(), "to_numpy_or_tensor", "O", source) : nullptr;
}

}  // namespace

PyObject* import_exporter(PyObject* source, const DLTensor& tensor, const TypeEntry& entry) {
  if (entry.family == Family::kNumpy) return import_into_numpy(source, tensor);
  if (entry.family == Family::kBuffer || !find_importer(&entry)) return Py_NewRef(source);
  return PyObject_CallOneArg(entry.importer, source);
}

bool fits(PyObject* object, const ResultPolicy& policy) {
  return !policy.chosen || PyObject_TypeCheck(object, policy.tensors->type);
}

PyObject* tensor_to_python(TVMFFIObject* object, const ResultPolicy& policy) {
  const TypeEntry* entry = policy.tensors;
  PyObject* source = source_of_cell(object);
  if (source != nullptr && fits(source, policy)) {
    source = Py_NewRef(source);
    ffi().object_dec_ref(object);
    return source;
  }
  bool imports = entry != nullptr && entry->kind == Kind::kTensor && entry->exchange != nullptr &&
                 entry->exchange->managed_tensor_to_py_object_no_sync != nullptr;
  bool to_tvm_ffi = (entry != nullptr && entry->kind == Kind::kForeignObject) ||
                    (entry == nullptr && policy.objects == ObjectMode::kTvmFfi);
  if (imports || to_tvm_ffi) {
    PyObject* made = imports ? import_managed(object, *entry) : to_foreign_object(object);
    ffi().object_dec_ref(object);
    return made;
  }
  Reference owner(own_object(object));
  if (!owner || entry == nullptr || entry->kind == Kind::kObject) return owner.release();
  return import_exporter(owner.get(), *tensor_of(object), *entry);
}

int set_tensor_type(PyObject* tensor_type, ResultPolicy* policy) {
  policy->tensors = nullptr;
  policy->chosen = false;
  if (tensor_type == nullptr || tensor_type == Py_None) return 0;
  const TypeEntry* entry =
      PyType_Check(tensor_type) ? entry_of_type(reinterpret_cast<PyTypeObject*>(tensor_type)) : nullptr;
  if (entry == nullptr && PyErr_Occurred()) return -1;
  bool holds_tensors =
      entry != nullptr && (entry->kind == Kind::kTensor || entry->kind == Kind::kForeignObject ||
                           entry->kind == Kind::kObject || find_importer(entry));
  if (!holds_tensors) {
    return refuse(PyExc_TypeError,
                  "expected an array class as tensor_type (numpy.ndarray, torch.Tensor, weft.ffi.Tensor), "
                  "received %R",
                  tensor_type);
  }
  policy->tensors = entry;
  policy->chosen = true;
  return 0;
}

}  // namespace weft
