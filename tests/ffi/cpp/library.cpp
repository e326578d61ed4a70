// SPDX-License-Identifier: Apache-2.0
//
// A library as C++ programmers write one with the headers of tvm-ffi: typed functions, an object type with
// fields and methods, functions that call back, keep what they are given, and raise.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/rvalue_ref.h>
#include <tvm/ffi/string.h>

#include <string>
#include <thread>
#include <vector>

namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;

// ---- an object type of this library

class CounterObj : public ffi::Object {
 public:
  int64_t count = 0;
  ffi::String name;

  CounterObj(int64_t count, ffi::String name) : count(count), name(std::move(name)) { ++alive; }
  ~CounterObj() { --alive; }
  int64_t Add(int64_t amount) { return count += amount; }

  static int alive;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("weft_test.Counter", CounterObj, ffi::Object);
};
int CounterObj::alive = 0;

class Counter : public ffi::ObjectRef {
 public:
  Counter(int64_t count, ffi::String name) { data_ = ffi::make_object<CounterObj>(count, std::move(name)); }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Counter, ffi::ObjectRef, CounterObj);
};

class NamedCounterObj : public CounterObj {
 public:
  NamedCounterObj(int64_t count, ffi::String name) : CounterObj(count, std::move(name)) {}
  TVM_FFI_DECLARE_OBJECT_INFO("weft_test.NamedCounter", NamedCounterObj, CounterObj);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<CounterObj>()
      .def(refl::init<int64_t, ffi::String>())
      .def_rw("count", &CounterObj::count, "how often")
      .def_ro("name", &CounterObj::name)
      .def("add", &CounterObj::Add, "adds an amount")
      .def_static("zero", [] { return Counter(0, "zero"); });
  refl::ObjectDef<NamedCounterObj>().def(refl::init<int64_t, ffi::String>());
}

// ---- values in, values out

void AddOne(ffi::TensorView source, ffi::TensorView target) {
  const auto* in = static_cast<const float*>(source.data_ptr());
  auto* out = static_cast<float*>(target.data_ptr());
  for (int64_t index = 0; index < source.numel(); ++index) out[index] = in[index] + 1.0f;
}

int64_t CountElements(ffi::Tensor tensor) { return tensor.numel(); }

ffi::Tensor Transposed(ffi::Tensor tensor) {
  return tensor.as_strided({tensor.size(1), tensor.size(0)}, {tensor.stride(1), tensor.stride(0)});
}

ffi::Tensor Allocate(ffi::Shape shape) {
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, shape, DLDataType{kDLFloat, 32, 1},
                                   DLDevice{kDLCPU, 0});
}

ffi::String Describe(const ffi::Any& value) { return value.GetTypeKey(); }

ffi::String Join(const ffi::Array<ffi::String>& parts, const ffi::String& separator) {
  std::string text;
  for (size_t index = 0; index < parts.size(); ++index) {
    if (index != 0) text += std::string(separator);
    text += std::string(parts[static_cast<int64_t>(index)]);
  }
  return text;
}

ffi::Map<ffi::String, ffi::Any> MakeMap(int64_t number, ffi::Tensor tensor) {
  return {{"number", number}, {"tensor", tensor}, {"list", ffi::List<ffi::Any>{1, "two"}}};
}

void Append(ffi::List<ffi::Any> list, ffi::Any value) { list.push_back(value); }
void Assign(ffi::Dict<ffi::Any, ffi::Any> dict, ffi::Any key, ffi::Any value) { dict.Set(key, value); }

ffi::Bytes Reverse(const ffi::Bytes& bytes) {
  std::string text(bytes.data(), bytes.size());
  return ffi::Bytes(std::string(text.rbegin(), text.rend()));
}

ffi::Shape ShapeOf(ffi::TensorView tensor) {
  return ffi::Shape(tensor.shape().begin(), tensor.shape().end());
}
DLDataType WidenType(DLDataType type) { return {type.code, static_cast<uint8_t>(type.bits * 2), type.lanes}; }
DLDevice NextDevice(DLDevice device) { return {device.device_type, device.device_id + 1}; }

// ---- functions

ffi::Function g_function(nullptr);
ffi::Any g_value;

void KeepFunction(ffi::Function function) { g_function = function; }
void CallKept(ffi::PackedArgs args, ffi::Any* result) { g_function.CallPacked(args, result); }
void ForgetFunction() { g_function = ffi::Function(nullptr); }
void ForgetFunctionOnThread() {
  std::thread([] { ForgetFunction(); }).join();
}
void KeepValue(ffi::Any value) { g_value = value; }
ffi::Any KeptValue() { return g_value; }
void ForgetValue() { g_value = nullptr; }
void ForgetValueOnThread() {
  std::thread([] { ForgetValue(); }).join();
}

void Apply(ffi::PackedArgs args, ffi::Any* result) {
  args[0].cast<ffi::Function>().CallPacked(args.Slice(1), result);
}

// From a thread that Python has never seen.
ffi::Any ApplyOnThread(ffi::Function function, ffi::Any argument) {
  ffi::Any result;
  std::string problem;
  std::thread([&] {
    try {
      result = function(argument);
    } catch (const ffi::Error& error) {
      problem = std::string(error.kind()) + ": " + std::string(error.message());
    }
  }).join();
  if (!problem.empty()) TVM_FFI_THROW(RuntimeError) << problem;
  return result;
}

int64_t SumOnThreads(ffi::Function function, int64_t threads, int64_t calls) {
  std::vector<std::thread> workers;
  std::vector<int64_t> sums(static_cast<size_t>(threads), 0);
  for (int64_t worker = 0; worker < threads; ++worker) {
    workers.emplace_back([&, worker] {
      for (int64_t call = 0; call < calls; ++call) sums[worker] += function(worker, call).cast<int64_t>();
    });
  }
  int64_t total = 0;
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    workers[worker].join();
    total += sums[worker];
  }
  return total;
}

// A DLTensor* that is on this function's stack, lent to the callback.
ffi::Any LendTensor(ffi::Function function) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  DLTensor tensor{data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  ffi::Any result = function(&tensor);
  for (float& value : data) value = -1;  // a later reader sees it
  return result;
}

int64_t GiveAway(ffi::Function function) {
  ffi::Array<ffi::Any> array{1, 2, 3};
  return function(ffi::RValueRef<ffi::Array<ffi::Any>>(std::move(array))).cast<int64_t>();
}

// Takes its argument over where it was moved: then it holds the only reference.
bool TakeArray(ffi::RValueRef<ffi::Array<ffi::Any>> array) { return (*std::move(array)).unique(); }

ffi::Any PassText(ffi::Function function) { return function("raw text", 7); }

// ---- errors

void Raise(ffi::String kind, ffi::String message) {
  throw ffi::Error(kind, message, TVMFFIBacktrace(__FILE__, __LINE__, "Raise", 0));
}

// What C++ sees of an error that the function raises: its kind, message, backtrace, and those of its cause.
ffi::Array<ffi::Any> Catch(ffi::Function function) {
  try {
    function();
  } catch (const ffi::Error& error) {
    ffi::Any cause = nullptr;
    if (auto chained = error.cause_chain()) {
      cause = ffi::String(std::string(chained->kind()) + ": " + std::string(chained->message()));
    }
    return {ffi::String(error.kind()), ffi::String(error.message()), ffi::String(error.backtrace()), cause};
  }
  return {};
}

ffi::Any Rethrow(ffi::Function function) {
  try {
    return function();
  } catch (const ffi::Error&) {
    throw;
  }
}

bool HasNoCppCall(ffi::Function function) {
  return static_cast<const ffi::FunctionObj*>(function.get())->cpp_call == nullptr;
}

int64_t CountersAlive() { return CounterObj::alive; }
Counter MakeCounter(int64_t count, ffi::String name) { return Counter(count, name); }
ffi::ObjectRef MakeNamedCounter(int64_t count) {
  return ffi::ObjectRef(ffi::make_object<NamedCounterObj>(count, "named"));
}

int64_t CheckSignals() { return TVMFFIEnvCheckSignals(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count_elements, CountElements)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(transposed, Transposed)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(allocate, Allocate)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(describe, Describe)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(join, Join)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_map, MakeMap)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(append, Append)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(assign, Assign)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(reverse, Reverse)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shape_of, ShapeOf)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(widen_type, WidenType)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(next_device, NextDevice)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep_function, KeepFunction)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(forget_function, ForgetFunction)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(forget_function_on_thread, ForgetFunctionOnThread)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep_value, KeepValue)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kept_value, KeptValue)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(forget_value, ForgetValue)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(forget_value_on_thread, ForgetValueOnThread)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply_on_thread, ApplyOnThread)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum_on_threads, SumOnThreads)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(lend_tensor, LendTensor)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(give_away, GiveAway)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(take_array, TakeArray)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pass_text, PassText)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(raise, Raise)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(catch, Catch)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rethrow, Rethrow)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(has_no_cpp_call, HasNoCppCall)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(check_signals, CheckSignals)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(counters_alive, CountersAlive)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_counter, MakeCounter)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_named_counter, MakeNamedCounter)

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_apply(void*, const TVMFFIAny* args,
                                                                      int32_t count, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  Apply(ffi::PackedArgs(reinterpret_cast<const ffi::AnyView*>(args), count),
        reinterpret_cast<ffi::Any*>(result));
  TVM_FFI_SAFE_CALL_END();
}
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_call_kept(void*, const TVMFFIAny* args,
                                                                          int32_t count, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  CallKept(ffi::PackedArgs(reinterpret_cast<const ffi::AnyView*>(args), count),
           reinterpret_cast<ffi::Any*>(result));
  TVM_FFI_SAFE_CALL_END();
}
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_echo(void*, const TVMFFIAny* args,
                                                                     int32_t count, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if (count < 1) TVM_FFI_THROW(TypeError) << "echo takes an argument";
  return TVMFFIAnyViewToOwnedAny(&args[0], result);
  TVM_FFI_SAFE_CALL_END();
}
