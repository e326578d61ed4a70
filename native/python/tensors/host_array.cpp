// SPDX-License-Identifier: Apache-2.0
//
// One description, held while it is used, under each of Python's protocols.
#include "python/tensors/host_array.h"

#include <memory>
#include <new>

#include "driver/python/tensor_memory.h"
#include "python/objects/object.h"
#include "python/tensors/copy_plan.h"
#include "python/tensors/held_tensor.h"
#include "python/tensors/tensor_cell.h"
#include "python/values/element.h"
#include "runtime/describe.h"

namespace weft {
namespace {

// Result of an index: dims of its own over the same memory.
struct Selection {
  DLTensor part;
  bool is_element;  // every axis has an index, and no ellipsis asks for a tensor
  int64_t shape[kMostCopyRank];
  int64_t strides[kMostCopyRank];

  int add(int64_t size, int64_t stride) {
    if (part.ndim == kMostCopyRank) {
      return refuse(PyExc_IndexError, "the index makes a tensor of more than %d dims", kMostCopyRank);
    }
    shape[part.ndim] = size;
    strides[part.ndim++] = stride;
    return 0;
  }
  void advance(int64_t elements) {
    part.data = static_cast<char*>(part.data) + elements * item_bytes(part.dtype);
  }
};

// A buffer's dims and its hold on the memory, which outlives changes of the object.
struct ExportedBuffer {
  HeldTensor held;
  Py_ssize_t shape[kMostCopyRank];
  Py_ssize_t strides[kMostCopyRank];
};

int check_host(const DLTensor& tensor, PyObject* exception) {
  if (is_host_memory(tensor.device)) return 0;
  return refuse(exception,
                "the host cannot read the memory of this tensor, which is on %s; copy it: "
                "weft.copy(weft.empty(tensor.shape, weft.%s), tensor)",
                describe_device(tensor.device).c_str(), describe_dtype(tensor.dtype).c_str());
}

int check_rank(const DLTensor& tensor) {
  if (tensor.ndim <= kMostCopyRank) return 0;
  return refuse(PyExc_ValueError, "expected a tensor of rank at most %d, received rank %d", kMostCopyRank,
                static_cast<int>(tensor.ndim));
}

int hold_on_host(PyObject* self, HeldTensor* held) {
  return held->hold(self) != 0 || check_host(held->tensor, PyExc_ValueError) != 0 ? -1
                                                                                  : check_rank(held->tensor);
}

void read_strides(const DLTensor& tensor, int64_t* strides) {
  int64_t dense = 1;
  for (int32_t axis = tensor.ndim; axis-- > 0;) {
    strides[axis] = tensor.strides != nullptr ? tensor.strides[axis] : dense;
    dense *= tensor.shape[axis];
  }
}

// The struct module's letter, of the machine's own size; nullptr where there is none.
const char* letter_of(DLDataType type) {
  static_assert(sizeof(long) == 8 && sizeof(int) == 4, "the letters are those of 64-bit Linux");
  struct {
    int code, bits;
    const char* letter;
  } constexpr kLetters[] = {
      {kDLBool, 8, "?"},      {kDLInt, 8, "b"},        {kDLInt, 16, "h"},   {kDLInt, 32, "i"},
      {kDLInt, 64, "l"},      {kDLUInt, 8, "B"},       {kDLUInt, 16, "H"},  {kDLUInt, 32, "I"},
      {kDLUInt, 64, "L"},     {kDLFloat, 16, "e"},     {kDLFloat, 32, "f"}, {kDLFloat, 64, "d"},
      {kDLComplex, 64, "Zf"}, {kDLComplex, 128, "Zd"},
  };
  for (const auto& row : kLetters) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.letter;
  }
  return nullptr;
}

// The order that a consumer needs: 'C', 'F', 'A' for either, or 0 for any strides.
char wanted_order(int flags) {
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_STRIDES) != PyBUF_STRIDES)
    return 'C';
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) return 'F';
  return (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS ? 'A' : '\0';
}

int check_buffer(const HeldTensor& held, int flags) {
  const DLTensor& tensor = held.tensor;
  if (check_host(tensor, PyExc_BufferError) != 0) return -1;
  const bool whole = tensor.dtype.bits * tensor.dtype.lanes % 8 == 0;
  if (!whole || ((flags & PyBUF_FORMAT) != 0 && letter_of(tensor.dtype) == nullptr)) {
    return refuse(
        PyExc_BufferError,
        "the buffer protocol has no letter for elements of %s; numpy.asarray(tensor) takes those that "
        "ml_dtypes has, tensor.tolist() gives numbers",
        describe_dtype(tensor.dtype).c_str());
  }
  if (held.read_only && (flags & PyBUF_WRITABLE) != 0) {
    return refuse(PyExc_BufferError, "this tensor is read-only");
  }
  return check_rank(tensor);
}

int fill_buffer(ExportedBuffer* exported, int flags, Py_buffer* buffer) {
  static char nothing;  // the address of a tensor without elements
  const DLTensor& tensor = exported->held.tensor;
  if (check_buffer(exported->held, flags) != 0) return -1;
  int64_t strides[kMostCopyRank];
  read_strides(tensor, strides);
  buffer->itemsize = item_bytes(tensor.dtype);
  buffer->len = buffer->itemsize;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    exported->shape[axis] = tensor.shape[axis];
    // A stride that means nothing, of one element, may be any number.
    exported->strides[axis] = tensor.shape[axis] > 1 ? strides[axis] * buffer->itemsize : buffer->itemsize;
    buffer->len *= tensor.shape[axis];
  }
  buffer->buf = tensor.data == nullptr ? &nothing : first_element(tensor);
  buffer->readonly = exported->held.read_only;
  buffer->ndim = tensor.ndim;
  buffer->format = const_cast<char*>(letter_of(tensor.dtype));
  buffer->shape = exported->shape;
  buffer->strides = exported->strides;
  buffer->suboffsets = nullptr;
  const char order = wanted_order(flags);
  if (order != '\0' && !PyBuffer_IsContiguous(buffer, order)) {
    return refuse(PyExc_BufferError,
                  "this tensor has gaps between its elements, and a contiguous buffer is asked for");
  }
  if ((flags & PyBUF_FORMAT) == 0) buffer->format = nullptr;
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) buffer->strides = nullptr;
  if ((flags & PyBUF_ND) == 0) {
    buffer->shape = nullptr;
    buffer->ndim = 1;
  }
  return 0;
}

int add_slice(PyObject* slice, int64_t size, int64_t stride, Selection* picked) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step) != 0) return -1;
  const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
  if (count > 0) picked->advance(start * stride);
  return picked->add(count, count > 1 ? stride * step : stride);
}

int add_index(PyObject* item, int64_t size, int64_t stride, int axis, Selection* picked) {
  if (!PyIndex_Check(item) || PyBool_Check(item)) {
    return refuse(PyExc_TypeError,
                  "a tensor is indexed by ints, slices, ... and None, received %s; "
                  "numpy.asarray(tensor) takes arrays as indices",
                  Py_TYPE(item)->tp_name);
  }
  const Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) return -1;
  if (index < -size || index >= size) {
    return refuse(PyExc_IndexError, "index %zd is out of range for axis %d, which has size %lld", index, axis,
                  static_cast<long long>(size));
  }
  picked->advance((index < 0 ? index + size : index) * stride);
  return 0;
}

// How many axes the items of an index take; -1 with an exception.
Py_ssize_t count_axes(PyObject* items, int32_t rank, bool* ellipsis) {
  Py_ssize_t taken = 0;
  *ellipsis = false;
  for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(items); ++place) {
    PyObject* item = PyTuple_GET_ITEM(items, place);
    if (item == Py_Ellipsis && *ellipsis) return refuse(PyExc_IndexError, "an index has one ... at most");
    *ellipsis = *ellipsis || item == Py_Ellipsis;
    if (item != Py_Ellipsis && item != Py_None) ++taken;
  }
  if (taken <= rank) return taken;
  return refuse(PyExc_IndexError, "the tensor has rank %d, received %zd indices", static_cast<int>(rank),
                taken);
}

int select(const DLTensor& tensor, PyObject* index, Selection* picked) {
  if (tensor.dtype.bits * tensor.dtype.lanes % 8 != 0) {
    return refuse(PyExc_TypeError,
                  "elements of %s share bytes, and have no addresses of their own; slice the bytes",
                  describe_dtype(tensor.dtype).c_str());
  }
  Reference items(PyTuple_Check(index) ? Py_NewRef(index) : PyTuple_Pack(1, index));
  bool ellipsis = false;
  int64_t strides[kMostCopyRank];
  const Py_ssize_t taken =
      items && check_rank(tensor) == 0 ? count_axes(items.get(), tensor.ndim, &ellipsis) : -1;
  if (taken < 0) return -1;
  read_strides(tensor, strides);
  picked->part = tensor;
  picked->part.data = first_element(tensor);
  picked->part.byte_offset = 0;
  picked->part.ndim = 0;
  picked->part.shape = picked->shape;
  picked->part.strides = picked->strides;
  int32_t axis = 0;
  int failed = 0;
  auto keep_until = [&](int64_t end) {
    for (; failed == 0 && axis < end; ++axis) failed = picked->add(tensor.shape[axis], strides[axis]);
  };
  for (Py_ssize_t place = 0; failed == 0 && place < PyTuple_GET_SIZE(items.get()); ++place) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), place);
    if (item == Py_None) {
      failed = picked->add(1, 0);
    } else if (item == Py_Ellipsis) {
      keep_until(axis + tensor.ndim - taken);
    } else {
      failed = PySlice_Check(item) ? add_slice(item, tensor.shape[axis], strides[axis], picked)
                                   : add_index(item, tensor.shape[axis], strides[axis], axis, picked);
      ++axis;
    }
  }
  keep_until(tensor.ndim);
  picked->is_element = picked->part.ndim == 0 && !ellipsis;
  return failed;
}

PyObject* nested_list(const DLTensor& tensor, const int64_t* strides, int32_t axis, const char* from) {
  if (axis == tensor.ndim) return read_element(tensor.dtype, from);
  Reference list(PyList_New(tensor.shape[axis]));
  const int64_t step = strides[axis] * item_bytes(tensor.dtype);
  for (int64_t index = 0; list && index < tensor.shape[axis]; ++index, from += step) {
    PyObject* item = nested_list(tensor, strides, axis + 1, from);
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), index, item);
  }
  return list.release();
}

// Whether addresses can be counted on; other devices have handles.
bool has_addresses(DLDevice device) {
  return is_host_memory(device) || device.device_type == kDLCUDA || device.device_type == kDLROCM;
}

}  // namespace

bool is_host_memory(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
         device.device_type == kDLROCMHost || device.device_type == kDLCUDAManaged;
}

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  std::unique_ptr<ExportedBuffer> exported(new (std::nothrow) ExportedBuffer);
  if (exported == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  if (exported->held.hold(self) != 0 || fill_buffer(exported.get(), flags, buffer) != 0) return -1;
  buffer->internal = exported.release();
  buffer->obj = Py_NewRef(self);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* buffer) { delete static_cast<ExportedBuffer*>(buffer->internal); }

PyObject* to_numpy(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Reference module(PyImport_ImportModule("weft.ffi.tensor"));
  Reference function(module ? PyObject_GetAttrString(module.get(), "to_numpy") : nullptr);
  Reference first(function ? PyTuple_Pack(1, self) : nullptr);
  Reference all(first ? PySequence_Concat(first.get(), arguments) : nullptr);
  return all ? PyObject_Call(function.get(), all.get(), keywords) : nullptr;
}

Py_ssize_t tensor_length(PyObject* self) {
  const DLTensor* tensor = describe_tensor(self).tensor;
  if (tensor == nullptr) return -1;
  if (tensor->ndim > 0) return tensor->shape[0];
  return refuse(PyExc_TypeError, "a tensor of rank 0 has no length");
}

PyObject* tensor_item(PyObject* self, PyObject* index) {
  HeldTensor held;
  Selection picked;
  if (held.hold(self) != 0 || select(held.tensor, index, &picked) != 0) return nullptr;
  if (picked.is_element) {
    if (check_host(held.tensor, PyExc_ValueError) != 0) return nullptr;
    return read_element(held.tensor.dtype, static_cast<char*>(picked.part.data));
  }
  if (!has_addresses(held.tensor.device)) {
    refuse(PyExc_ValueError, "a tensor on %s cannot be sliced", describe_device(held.tensor.device).c_str());
    return nullptr;
  }
  TVMFFIObject* view = make_view(held.owner(), picked.part);
  return view == nullptr ? nullptr : own_object(view);
}

int set_tensor_item(PyObject* self, PyObject* index, PyObject* value) {
  HeldTensor held;
  Selection picked;
  if (value == nullptr) return refuse(PyExc_TypeError, "elements of a tensor cannot be deleted");
  if (hold_on_host(self, &held) != 0 || select(held.tensor, index, &picked) != 0) return -1;
  if (held.read_only) return refuse(PyExc_ValueError, "this tensor is read-only");
  const int array = is_array(value);
  if (array != 0) return array < 0 ? -1 : copy_from_array(picked.part, value);
  char element[kMostElementBytes];
  return write_element(value, held.tensor.dtype, element) != 0 ? -1 : fill_on_host(picked.part, element);
}

PyObject* only_item(PyObject* self, PyObject*) {
  HeldTensor held;
  if (hold_on_host(self, &held) != 0) return nullptr;
  for (int32_t axis = 0; axis < held.tensor.ndim; ++axis) {
    if (held.tensor.shape[axis] == 1) continue;
    refuse(PyExc_ValueError, "only a tensor of one element is a number; this one has shape %s",
           describe_shape(held.tensor).c_str());
    return nullptr;
  }
  return read_element(held.tensor.dtype, first_element(held.tensor));
}

PyObject* to_list(PyObject* self, PyObject*) {
  HeldTensor held;
  int64_t strides[kMostCopyRank];
  if (hold_on_host(self, &held) != 0) return nullptr;
  read_strides(held.tensor, strides);
  return nested_list(held.tensor, strides, 0, first_element(held.tensor));
}

PyObject* to_bytes(PyObject* self, PyObject*) {
  HeldTensor held;
  if (hold_on_host(self, &held) != 0) return nullptr;
  int64_t size = item_bytes(held.tensor.dtype);
  bool too_large = false;
  for (int32_t axis = 0; axis < held.tensor.ndim; ++axis) {
    too_large = __builtin_mul_overflow(size, held.tensor.shape[axis], &size) || too_large;
  }
  if (too_large) return PyErr_NoMemory();
  Reference bytes(PyBytes_FromStringAndSize(nullptr, size));
  if (!bytes) return nullptr;
  DLTensor dense = held.tensor;
  dense.data = PyBytes_AS_STRING(bytes.get());
  dense.byte_offset = 0;
  dense.strides = nullptr;
  return copy_on_host(dense, held.tensor) == 0 ? bytes.release() : nullptr;
}

}  // namespace weft
