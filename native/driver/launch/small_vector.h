// SPDX-License-Identifier: Apache-2.0
//
// A vector of plain values with the first few stored inline: launches have few parameters, and an allocation
// would cost more.
#ifndef WEFT_DRIVER_SMALL_VECTOR_H_
#define WEFT_DRIVER_SMALL_VECTOR_H_

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace weft {

template <typename T, size_t kInline>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() {}  // leaves the inline values uninitialized
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  size_t size() const { return size_; }
  T* data() { return heap_.empty() ? reinterpret_cast<T*>(inline_) : heap_.data(); }
  const T* data() const { return heap_.empty() ? reinterpret_cast<const T*>(inline_) : heap_.data(); }
  T& operator[](size_t index) { return data()[index]; }
  const T& operator[](size_t index) const { return data()[index]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  // New values are not initialized.
  void resize(size_t size) {
    if (size > kInline && size > heap_.size()) {
      const bool was_inline = heap_.empty();
      heap_.resize(size < 2 * size_ ? 2 * size_ : size);
      if (was_inline) memcpy(static_cast<void*>(heap_.data()), inline_, size_ * sizeof(T));
    }
    size_ = size;
  }

  void push_back(T value) {
    resize(size_ + 1);
    data()[size_ - 1] = value;
  }

 private:
  size_t size_ = 0;
  std::vector<T> heap_;
  alignas(T) char inline_[kInline * sizeof(T)];
};

}  // namespace weft

#endif  // WEFT_DRIVER_SMALL_VECTOR_H_
