// SPDX-License-Identifier: Apache-2.0
//
// A C++ program that embeds Python: weft compiles a function and registers it with others; the program calls
// them through the registry, as it would call functions of C++, and goes on after Python has ended.
#include <Python.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ffi = tvm::ffi;

struct Allocator {
  void AllocData(DLTensor* tensor) { tensor->data = std::calloc(64, 1); }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

ffi::Tensor Vector(int64_t size, float start) {
  ffi::Tensor made = ffi::Tensor::FromNDAlloc(Allocator(), ffi::Shape{size}, DLDataType{kDLFloat, 32, 1},
                                              DLDevice{kDLCPU, 0});
  for (int64_t index = 0; index < size; ++index) {
    static_cast<float*>(made.data_ptr())[index] = start + static_cast<float>(index);
  }
  return made;
}

void Print(const ffi::Tensor& tensor) {
  for (int64_t index = 0; index < tensor.numel(); ++index) {
    std::printf(index == 0 ? "%g" : " %g",
                static_cast<double>(static_cast<float*>(tensor.data_ptr())[index]));
  }
  std::printf("\n");
}

// The script that makes the functions is the argument.
int main(int, char** arguments) {
  Py_Initialize();
  std::string run = std::string("import runpy; runpy.run_path('") + arguments[1] + "')";
  if (PyRun_SimpleString(run.c_str()) != 0) return 1;
  ffi::Function add_one = ffi::Function::GetGlobalRequired("program.add_one");
  ffi::Function join = ffi::Function::GetGlobalRequired("program.join");
  ffi::Function apply = ffi::Function::GetGlobalRequired("program.apply");
  ffi::Tensor a = Vector(4, 0), b = Vector(4, 0);
  PyThreadState* state = PyEval_SaveThread();  // the program's own code runs without Python's lock

  add_one(a, b);
  Print(b);
  try {
    add_one(a, Vector(2, 0));
  } catch (const ffi::Error& error) {
    std::string message(error.message());
    std::printf("%s: %s\n", std::string(error.kind()).c_str(),
                message.substr(message.find("shape[0]")).c_str());
  }
  std::printf("%s\n",
              std::string(join(ffi::Array<ffi::String>{"a", "b", "c"}, "-").cast<ffi::String>()).c_str());
  ffi::Function twice = ffi::Function::FromTyped([](int64_t value) { return 2 * value; });
  std::printf("%lld\n", static_cast<long long>(apply(twice, 21).cast<int64_t>()));

  PyEval_RestoreThread(state);
  Py_Finalize();
  try {
    join(ffi::Array<ffi::String>{"a"}, "-");
  } catch (const ffi::Error& error) {
    std::printf("after the end: %s: %s\n", std::string(error.kind()).c_str(),
                std::string(error.message()).c_str());
  }
  // Compiled code needs no Python.
  ffi::Tensor c = Vector(4, 0.5f);
  add_one(c, c);
  Print(c);
  std::fflush(stdout);
  return 0;
}
