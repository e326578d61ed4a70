// SPDX-License-Identifier: Apache-2.0
//
// Arrays and maps are searched only while read-only tensor objects exist. Lists and dicts hold none: they
// refuse them.
#include "python/readers/writable.h"

#include "python/objects/owned_object.h"
#include "python/tensors/tensor_cell.h"
#include "python/values/encode/mapping_items.h"

namespace weft {
namespace {

int check(const TVMFFIObject* object, uint8_t flags, PyObject* items, const CallFrame& frame);

// The elements of an array, each by its own plan if any.
int check_elements(const TVMFFIObject* object, uint8_t flags, PyObject* items, const CallFrame& frame) {
  const auto* sequence = contents<TVMFFISeqCell>(object);
  const auto* elements = static_cast<const TVMFFIAny*>(sequence->data);
  PyObject* plan = (flags & kArgumentItems) != 0 ? PyTuple_GET_ITEM(items, 0) : nullptr;
  if (plan != nullptr && PyTuple_GET_SIZE(plan) != sequence->size) return 0;  // the callee refuses the size
  auto own_flags = static_cast<uint8_t>(flags & ~kArgumentItems);
  for (int64_t index = 0; index < sequence->size; ++index) {
    if (elements[index].type_index < kTVMFFIStaticObjectBegin) continue;
    PyObject* child = plan == nullptr ? nullptr : PyTuple_GET_ITEM(plan, index);
    bool has_plan = child != nullptr && PyTuple_Check(child);
    if (has_plan) own_flags = kArgumentItems;
    if (child != nullptr && !has_plan) own_flags = static_cast<uint8_t>(PyLong_AsLong(child));
    if (check(elements[index].v_obj, own_flags, has_plan ? child : nullptr, frame) != 0) return -1;
  }
  return 0;
}

int check_pairs(const TVMFFIObject* object, uint8_t flags, const CallFrame& frame) {
  MappingItems items;
  if (items.read(const_cast<TVMFFIObject*>(object)) != 0) return -1;
  for (size_t index = 0; index < items.size(); ++index) {
    const TVMFFIAny& value = items.at(index);
    if (value.type_index < kTVMFFIStaticObjectBegin) continue;
    if (check(value.v_obj, flags, nullptr, frame) != 0) return -1;
  }
  return 0;
}

int check(const TVMFFIObject* object, uint8_t flags, PyObject* items, const CallFrame& frame) {
  const bool written = may_be_written(flags, frame);
  if (object->type_index == kTVMFFITensor) {
    return written && is_read_only_cell(object) ? refuse_unwritable(nullptr, flags, frame) : 0;
  }
  const bool is_array = object->type_index == kTVMFFIArray && (written || (flags & kArgumentItems) != 0);
  if (!is_array && !(object->type_index == kTVMFFIMap && written)) return 0;
  if (Py_EnterRecursiveCall(" while looking for read-only memory")) return -1;
  const int failed =
      is_array ? check_elements(object, flags, items, frame) : check_pairs(object, flags, frame);
  Py_LeaveRecursiveCall();
  return failed;
}

}  // namespace

int refuse_unwritable(const PyTypeObject* immutable, uint8_t flags, const CallFrame& frame) {
  const bool by_kernel = (flags & kArgumentWritten) != 0;
  const bool by_callee = !by_kernel && frame.writer == Writer::kCallee;
  const char* writer = by_kernel   ? "a kernel writes to it"
                       : by_callee ? "the function may write to it"
                                   : "those who share this value may write to it";
  const char* advice = by_callee   ? "; if it only reads, set function.writes = False"
                       : by_kernel ? ""
                                   : "; pass a copy";
  if (immutable == nullptr) {
    return refuse(PyExc_ValueError, "expected writable memory, because %s, received a read-only array%s",
                  writer, advice);
  }
  return refuse(
      PyExc_ValueError,
      "expected writable memory, because %s, received an immutable %s%s; to let it be written in "
      "place, with everything that shares its memory, pass weft.ffi.from_dlpack(array, writable=True)",
      writer, immutable->tp_name, advice);
}

int check_array_memory(const TensorView& view, const TypeEntry& entry, uint8_t flags,
                       const CallFrame& frame) {
  if (view.read_only && may_be_written(flags, frame)) {
    return refuse_unwritable(entry.immutable ? entry.type : nullptr, flags, frame);
  }
  if (!view.copied || (flags & kArgumentWritten) == 0) return 0;
  return refuse(PyExc_ValueError,
                "expected writable memory, because a kernel writes to it, received a copy that the array's "
                "library made");
}

int check_object_memory(const TVMFFIObject* object, uint8_t flags, const CallFrame& frame) {
  return WEFT_LIKELY(!read_only_cells_exist()) ? 0 : check(object, flags, frame.items, frame);
}

}  // namespace weft
