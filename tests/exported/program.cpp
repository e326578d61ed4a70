// SPDX-License-Identifier: Apache-2.0
//
// A program in C++ that loads a library by its path, through TVM-FFI's module loader.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>

#include <cstdio>
#include <vector>

int main(int, char** arguments) {
  tvm::ffi::Module module = tvm::ffi::Module::LoadFromFile(arguments[1]);
  std::vector<float> a(1000), b(1000);
  for (int i = 0; i < 1000; ++i) a[i] = static_cast<float>(i);
  int64_t shape[1] = {1000}, strides[1] = {1};
  DLTensor first{a.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0};
  DLTensor second = first;
  second.data = b.data();
  tvm::ffi::Function scale = *module->GetFunction("scale");
  scale(&first, &second, 3.0);
  std::printf("%g %g\n", b[1], b[999]);
  try {
    scale(&first);
  } catch (const tvm::ffi::Error& error) {
    std::printf("%s: %s\n", error.kind().c_str(), error.message().c_str());
  }
}
