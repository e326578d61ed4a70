// SPDX-License-Identifier: Apache-2.0
//
// The library that docs/ffi.md shows: called from Python, calling Python, calling what weft compiled.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

namespace ffi = tvm::ffi;

// Called from Python, with an array of any library.
double Mean(ffi::TensorView values) {
  if (values.dtype().code != kDLFloat || values.dtype().bits != 32) {
    TVM_FFI_THROW(TypeError) << "mean: expected elements of 32-bit floats";
  }
  const float* data = static_cast<const float*>(values.data_ptr());
  double sum = 0;
  for (int64_t index = 0; index < values.numel(); ++index) sum += data[index];
  return sum / static_cast<double>(values.numel());
}

// Calls Python back: `weight` is any callable.
ffi::Map<ffi::String, double> Weigh(const ffi::Array<ffi::String>& words, ffi::Function weight) {
  ffi::Map<ffi::String, double> weights;
  for (const ffi::String& word : words) weights.Set(word, weight(word).cast<double>());
  return weights;
}

// Calls a function that weft compiled, by the name that Python registered it under. It checks its arguments,
// for every caller.
ffi::String AddTwice(ffi::Tensor a, ffi::Tensor b, ffi::Tensor c) {
  static ffi::Function add_one = ffi::Function::GetGlobalRequired("guide.add_one");
  add_one(a, b);
  add_one(b, c);
  try {
    add_one(a, "no tensor");
  } catch (const ffi::Error& error) {
    return error.kind() + ": " + error.message();
  }
  return "no error";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mean, Mean)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(weigh, Weigh)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_twice, AddTwice)
