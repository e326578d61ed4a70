// SPDX-License-Identifier: Apache-2.0
//
// Functions of the TVM-FFI ABI for the marshaller's tests: they record what they were called with, give it
// back, keep it, or fail. Built by tests/native/callee.py against the installed headers and libtvm_ffi.
#include <dlfcn.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#define CALLEE extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kMaxArguments = 64;
constexpr int kMaxRank = 64;

TVMFFIAny g_arguments[kMaxArguments];
int32_t g_count = -1;
DLTensor g_tensors[kMaxArguments];
int64_t g_dims[kMaxArguments][2 * kMaxRank];
char g_text[256];
void* g_handle = nullptr;
void* g_streams[2] = {nullptr, nullptr};
TVMFFIObject* g_kept = nullptr;

const DLTensor* tensor_of(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
  if (value.type_index == kTVMFFITensor) return reinterpret_cast<const DLTensor*>(value.v_obj + 1);
  return nullptr;
}

void record_tensor(int index, const DLTensor& tensor) {
  g_tensors[index] = tensor;
  for (int axis = 0; axis < tensor.ndim && axis < kMaxRank; ++axis) {
    g_dims[index][axis] = tensor.shape[axis];
    g_dims[index][kMaxRank + axis] = tensor.strides[axis];
  }
}

void record_text(const TVMFFIAny& value) {
  TVMFFIByteArray bytes{value.v_bytes, value.small_str_len};
  if (value.type_index >= kTVMFFIStaticObjectBegin)
    bytes = *reinterpret_cast<TVMFFIByteArray*>(value.v_obj + 1);
  std::memset(g_text, 0, sizeof(g_text));
  std::memcpy(g_text, bytes.data, bytes.size < 255 ? bytes.size : 255);
}

bool is_text(int32_t type) {
  return type == kTVMFFISmallStr || type == kTVMFFISmallBytes || type == kTVMFFIStr || type == kTVMFFIBytes;
}

void set(TVMFFIAny* result, int32_t type, int64_t value) {
  result->type_index = type;
  result->zero_padding = 0;
  result->v_int64 = value;
}

int fail(const char* kind, const char* message, TVMFFIObjectHandle context) {
  TVMFFIByteArray kind_bytes{kind, std::strlen(kind)};
  TVMFFIByteArray message_bytes{message, std::strlen(message)};
  TVMFFIByteArray backtrace{"", 0};
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorCreateWithCauseAndExtraContext(&kind_bytes, &message_bytes, &backtrace, nullptr, context,
                                            &error);
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
}

}  // namespace

// What the last call of `record` saw.
CALLEE const TVMFFIAny* callee_arguments() { return g_arguments; }
CALLEE int32_t callee_count() { return g_count; }
CALLEE const DLTensor* callee_tensor(int index) { return &g_tensors[index]; }
CALLEE const int64_t* callee_dims(int index) { return g_dims[index]; }
CALLEE const char* callee_text() { return g_text; }
CALLEE void* callee_handle() { return g_handle; }
CALLEE void* callee_stream(int device) { return g_streams[device]; }

CALLEE int sleep_a_little(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return 0;
}

CALLEE int nothing(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return 0; }

CALLEE int record(void* handle, const TVMFFIAny* arguments, int32_t count, TVMFFIAny*) {
  g_handle = handle;
  g_count = count;
  for (int device = 0; device < 2; ++device) g_streams[device] = TVMFFIEnvGetStream(kDLCUDA, device);
  for (int32_t index = 0; index < count && index < kMaxArguments; ++index) {
    g_arguments[index] = arguments[index];
    const DLTensor* tensor = tensor_of(arguments[index]);
    if (tensor != nullptr) record_tensor(index, *tensor);
    if (is_text(arguments[index].type_index)) record_text(arguments[index]);
  }
  return 0;
}

// The first argument as an owned result.
CALLEE int echo(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  return count == 0 ? 0 : TVMFFIAnyViewToOwnedAny(&arguments[0], result);
}

// A copy of the first argument, which must be an array, as a new object.
CALLEE int echo_new(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny* result) {
  TVMFFIByteArray name{"ffi.Array", 9};
  TVMFFIObjectHandle constructor = nullptr;
  TVMFFIFunctionGetGlobal(&name, &constructor);
  auto* cell = reinterpret_cast<TVMFFISeqCell*>(arguments[0].v_obj + 1);
  auto* items = static_cast<TVMFFIAny*>(cell->data);
  int code = TVMFFIFunctionCall(constructor, items, static_cast<int32_t>(cell->size), result);
  TVMFFIObjectDecRef(constructor);
  return code;
}

// Keeps the first argument until `release_kept`; returns nothing.
CALLEE int keep(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny*) {
  TVMFFIObjectIncRef(arguments[0].v_obj);
  g_kept = arguments[0].v_obj;
  return 0;
}
CALLEE TVMFFIObject* callee_kept() { return g_kept; }
CALLEE int return_kept(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  TVMFFIObjectIncRef(g_kept);
  set(result, g_kept->type_index, 0);
  result->v_obj = g_kept;
  return 0;
}
CALLEE void release_kept() {
  TVMFFIObjectDecRef(g_kept);
  g_kept = nullptr;
}
CALLEE void release_kept_on_thread() {
  std::thread([] { release_kept(); }).join();
}
CALLEE void release_on_thread(TVMFFIObject* object) {
  std::thread([object] { TVMFFIObjectDecRef(object); }).join();
}

// Releases when the C library runs its exit handlers, which is after the interpreter has ended.
CALLEE void release_at_exit(TVMFFIObject* object) {
  static TVMFFIObject* last = nullptr;
  last = object;
  std::atexit([] { TVMFFIObjectDecRef(last); });
}

CALLEE int return_handle(void* handle, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  set(result, kTVMFFIInt, reinterpret_cast<int64_t>(handle));
  return 0;
}
CALLEE int return_true(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  set(result, kTVMFFIBool, 1);
  return 0;
}
CALLEE int return_dtype(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  set(result, kTVMFFIDataType, 0);
  result->v_dtype = {kDLFloat, 32, 1};
  return 0;
}
CALLEE int return_device(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  set(result, kTVMFFIDevice, 0);
  result->v_device = {kDLCUDA, 3};
  return 0;
}

// The kind is the first argument, the message the second, both short.
CALLEE int raise(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny*) {
  record_text(arguments[0]);
  char kind[64];
  std::memcpy(kind, g_text, sizeof(kind));
  record_text(arguments[1]);
  return fail(kind, g_text, nullptr);
}
// A RuntimeError whose extra context is the first argument.
CALLEE int raise_with_context(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny*) {
  return fail("RuntimeError", "with context", arguments[0].v_obj);
}
// An error that carries the Python exception at the handle, as bindings do that caught one.
CALLEE int raise_original(void* handle, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  TVMFFIObjectHandle opaque = nullptr;
  TVMFFIObjectCreateOpaque(handle, kTVMFFIOpaquePyObject, [](void*) {}, &opaque);
  fail("ValueError", "another text", opaque);
  TVMFFIObjectDecRef(opaque);
  return -1;
}
// Leaves a pending KeyboardInterrupt, told by the result code or by the error's kind.
static void set_interrupt() {
  auto take_gil = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  auto give_gil = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  auto set = reinterpret_cast<void (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyErr_SetString"));
  int state = take_gil();
  set(*static_cast<void**>(dlsym(RTLD_DEFAULT, "PyExc_KeyboardInterrupt")), "pending");
  give_gil(state);
}
CALLEE int raise_pending(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  set_interrupt();
  return -2;
}
CALLEE int raise_already_set(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  set_interrupt();
  return fail("EnvErrorAlreadySet", "", nullptr);
}
CALLEE int raise_nothing(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return -1; }
CALLEE int raise_value_error(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  return fail("ValueError", "shape[0] is 12, expected 10", nullptr);
}
CALLEE int32_t call_function(TVMFFIObject* function, TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  return TVMFFIFunctionCall(function, arguments, count, result);
}

// ---- producers: tensors on a "CUDA device" that are only described, never touched

namespace {

int64_t g_shape[2] = {2, 3};
int64_t g_strides[2] = {3, 1};
int g_deleted = 0;
int g_stream_queries = 0;

void delete_managed(DLManagedTensorVersioned* managed) {
  ++g_deleted;
  delete managed;
}
void delete_legacy(DLManagedTensor* managed) {
  ++g_deleted;
  delete managed;
}

DLTensor example_tensor(DLDeviceType device_type, int device) {
  DLTensor tensor;
  tensor.data = reinterpret_cast<void*>(0x1000);
  tensor.device = {device_type, device};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = g_shape;
  tensor.strides = g_strides;
  tensor.byte_offset = 8;
  return tensor;
}

int borrow_tensor(void*, DLTensor* out) {
  *out = example_tensor(kDLCUDA, 1);
  return 0;
}

int work_stream(DLDeviceType, int32_t device, void** stream) {
  ++g_stream_queries;
  *stream = reinterpret_cast<void*>(static_cast<int64_t>(0x5000 + device));
  return 0;
}

}  // namespace

// A DLPackExchangeAPI whose tensors are on CUDA device 1 and whose current stream is 0x5001.
CALLEE void* callee_exchange_api() {
  static DLPackExchangeAPI api = {};
  api.header.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  api.dltensor_from_py_object_no_sync = borrow_tensor;
  api.current_work_stream = work_stream;
  return &api;
}
// The same through managed tensors only, after a newer, unknown version.
CALLEE void* callee_future_exchange_api() {
  static DLPackExchangeAPI known = {};
  known.header.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  known.managed_tensor_from_py_object_no_sync = [](void*, DLManagedTensorVersioned** out) {
    *out = new DLManagedTensorVersioned{};
    (*out)->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    (*out)->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    (*out)->dl_tensor = example_tensor(kDLCPU, 0);
    (*out)->deleter = delete_managed;
    return 0;
  };
  static DLPackExchangeAPIHeader future = {};
  future.version = {DLPACK_MAJOR_VERSION + 1, 0};
  future.prev_api = &known.header;
  return &future;
}
CALLEE int callee_stream_queries() { return g_stream_queries; }
CALLEE int callee_deleted() { return g_deleted; }

// A managed tensor on `device_type` 0 with `flags`, versioned or legacy.
CALLEE void* callee_managed(int device_type, int flags, int versioned, int major) {
  if (versioned == 0) {
    auto* legacy = new DLManagedTensor{};
    legacy->dl_tensor = example_tensor(static_cast<DLDeviceType>(device_type), 0);
    legacy->deleter = delete_legacy;
    return legacy;
  }
  auto* managed = new DLManagedTensorVersioned{};
  managed->version = {static_cast<uint32_t>(major), 0};
  managed->flags = static_cast<uint64_t>(flags);
  managed->dl_tensor = example_tensor(static_cast<DLDeviceType>(device_type), 0);
  managed->deleter = delete_managed;
  return managed;
}
// The environment's stream of CUDA device `device` in this thread.
CALLEE void* callee_environment_stream(int device) { return TVMFFIEnvGetStream(kDLCUDA, device); }
CALLEE void callee_set_environment_stream(int device, void* stream) {
  TVMFFIEnvSetStream(kDLCUDA, device, stream, nullptr);
}
