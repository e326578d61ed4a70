// SPDX-License-Identifier: Apache-2.0
//
// What keys of calls are made of: bytes, and the values of compile-time constants; tensors of any library.
#ifndef WEFT_PYTHON_KEY_H_
#define WEFT_PYTHON_KEY_H_

#include <cstring>
#include <string>

#include "python/call/constant_key.h"
#include "python/tensors/tensor_view.h"
#include "python/values/type_table.h"

namespace weft {

// A growing byte string on the stack; on the heap when a call has very many arguments.
class Key {
 public:
  void add(uint8_t byte) { add_bytes(&byte, 1); }
  template <typename T>
  void add_value(const T& value) {
    add_bytes(&value, sizeof(T));
  }
  void add_bytes(const void* bytes, size_t count) {
    if (WEFT_LIKELY(count <= sizeof(inline_) - size_ && heap_.empty())) {
      std::memcpy(inline_ + size_, bytes, count);
      size_ += count;
      return;
    }
    for (size_t index = 0; index < count; ++index) spill(static_cast<const uint8_t*>(bytes)[index]);
  }
  // The values of a record's compile-time fields are part of the key.
  int add_constant(PyObject* value) {
    Reference key(constant_key(value));
    if (!constants_) constants_.reset(PyList_New(0));
    return key && constants_ ? PyList_Append(constants_.get(), key.get()) : -1;
  }
  bool has_constants() const { return static_cast<bool>(constants_); }
  const char* data() const { return heap_.empty() ? inline_ : heap_.data(); }
  size_t size() const { return heap_.empty() ? size_ : heap_.size(); }
  // The bytes, or (bytes, constants) if there are constants.
  PyObject* to_object() const {
    Reference bytes(to_bytes());
    if (WEFT_LIKELY(!constants_)) return bytes.release();
    Reference constants(PyList_AsTuple(constants_.get()));
    return bytes && constants ? PyTuple_Pack(2, bytes.get(), constants.get()) : nullptr;
  }

 private:
  PyObject* to_bytes() const {
    if (WEFT_LIKELY(heap_.empty())) return PyBytes_FromStringAndSize(inline_, static_cast<Py_ssize_t>(size_));
    return PyBytes_FromStringAndSize(heap_.data(), static_cast<Py_ssize_t>(heap_.size()));
  }
  void spill(uint8_t byte) {
    if (heap_.empty()) heap_.assign(inline_, size_);
    heap_.push_back(static_cast<char>(byte));
  }
  size_t size_ = 0;
  char inline_[480];
  std::string heap_;
  Reference constants_;
};

// Any tensor argument. Returns 1 when `view` is filled, 0 when the object is not a tensor, -1 on an error.
int view_of(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

// Adds the type of a call's argument, as `argument_key` of Python does: 0, or -1 with an exception.
int add_argument(PyObject* object, Scratch& scratch, Key& key);

}  // namespace weft

#endif  // WEFT_PYTHON_KEY_H_
