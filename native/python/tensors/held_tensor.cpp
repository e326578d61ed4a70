// SPDX-License-Identifier: Apache-2.0
//
// Arrays become tensor objects, which keep their memory by the rules of tensors that escape from a call.
#include "python/tensors/held_tensor.h"

#include "ffi_library.h"
#include "python/objects/object.h"
#include "python/tensors/tensor_cell.h"
#include "python/values/interop.h"

namespace weft {

HeldTensor::~HeldTensor() {
  if (keeper_.drop != nullptr) or_wait_for_the_end([this] { keeper_.drop(keeper_.object); });
}

int HeldTensor::hold(PyObject* object) {
  const TensorDescription described = describe_tensor(object);
  if (described.tensor == nullptr || keep_tensor(object, &keeper_) != 0) return -1;
  tensor = *described.tensor;
  read_only = described.read_only;
  return 0;
}

int HeldTensor::hold_array(PyObject* value, const char* role) {
  const TypeEntry* entry = find_type(value);
  if (entry == nullptr) return -1;
  if (entry->kind == Kind::kTensorView || entry->kind == Kind::kObject) return hold(value);
  TVMFFIObject* handle = nullptr;
  if (entry->kind == Kind::kForeignObject) {
    handle = handle_of_foreign(value);
    if (handle == nullptr) return -1;
    ffi().object_inc_ref(handle);
  } else if (entry->kind == Kind::kTensor) {
    Scratch scratch;
    TensorView view;
    if (read_tensor(value, *entry, scratch, &view) != 0) return -1;
    copied = view.copied;
    handle = make_tensor(value, *entry, view);
    if (handle == nullptr) return -1;
  }
  if (handle != nullptr) keeper_ = {handle, drop_handle};
  if (handle == nullptr || handle->type_index != kTVMFFITensor) {
    return refuse(PyExc_TypeError, "%s: expected an array or a tensor, received %s", role,
                  Py_TYPE(value)->tp_name);
  }
  tensor = *tensor_of(handle);
  read_only = is_read_only_cell(handle);
  return 0;
}

int is_array(PyObject* value) {
  const TypeEntry* entry = find_type(value);
  if (entry == nullptr) return -1;
  return entry->kind == Kind::kTensor || entry->kind == Kind::kTensorView || entry->kind == Kind::kObject ||
         entry->kind == Kind::kForeignObject;
}

}  // namespace weft
