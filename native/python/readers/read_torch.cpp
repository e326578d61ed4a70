// SPDX-License-Identifier: Apache-2.0
//
// torch.Tensor through the C shim that libtorch exports for ahead-of-time compiled code. The only assumption,
// where a Python tensor keeps its pointer, is found and verified with probe tensors when torch is first seen;
// dtype and device numbers come from the shim.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "python/readers/readers.h"
#include "python/readers/stream.h"
#include "python/readers/torch_version.h"

namespace weft {
namespace {

using TensorHandle = const void*;  // AtenTensorHandle: the address of the at::Tensor in the Python object

struct TorchShim {
  int32_t (*get_data_ptr)(TensorHandle, void**);
  int32_t (*get_sizes)(TensorHandle, int64_t**);
  int32_t (*get_strides)(TensorHandle, int64_t**);
  int32_t (*get_dim)(TensorHandle, int64_t*);
  int32_t (*get_dtype)(TensorHandle, int32_t*);
  int32_t (*get_device_type)(TensorHandle, int32_t*);
  int32_t (*get_device_index)(TensorHandle, int32_t*);
  int32_t (*get_layout)(TensorHandle, int32_t*);
  int32_t (*layout_strided)();
  // The exported native kernels of Tensor.is_neg, is_conj; declared in ATen/ops/is_neg_native.h.
  bool (*is_neg)(TensorHandle);
  bool (*is_conj)(TensorHandle);
  // What `torch.autograd.graph.increment_version` and `Tensor.requires_grad` are made of.
  bool (*is_inference)(TensorHandle);
  void (*bump_version)(TensorHandle);
  bool (*requires_grad)(const void* implementation);  // c10::TensorImpl, which the handle points to
  bool (*grad_mode)();
  const void* const* (*tracing_state)();  // a std::shared_ptr, whose first word is the pointer
  bool (*any_modes)(bool skip_infra);     // of __torch_dispatch__
};

struct Symbol {
  const char* name;
  size_t offset;
};
constexpr Symbol kSymbols[] = {
    {"aoti_torch_get_data_ptr", offsetof(TorchShim, get_data_ptr)},
    {"aoti_torch_get_sizes", offsetof(TorchShim, get_sizes)},
    {"aoti_torch_get_strides", offsetof(TorchShim, get_strides)},
    {"aoti_torch_get_dim", offsetof(TorchShim, get_dim)},
    {"aoti_torch_get_dtype", offsetof(TorchShim, get_dtype)},
    {"aoti_torch_get_device_type", offsetof(TorchShim, get_device_type)},
    {"aoti_torch_get_device_index", offsetof(TorchShim, get_device_index)},
    {"aoti_torch_get_layout", offsetof(TorchShim, get_layout)},
    {"aoti_torch_layout_strided", offsetof(TorchShim, layout_strided)},
    {"_ZN2at6native6is_negERKNS_6TensorE", offsetof(TorchShim, is_neg)},
    {"_ZN2at6native7is_conjERKNS_6TensorE", offsetof(TorchShim, is_conj)},
    {"_ZN2at6native12is_inferenceERKNS_6TensorE", offsetof(TorchShim, is_inference)},
    {"_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", offsetof(TorchShim, bump_version)},
    {"_ZNK3c1010TensorImpl13requires_gradEv", offsetof(TorchShim, requires_grad)},
    {"aoti_torch_grad_mode_is_enabled", offsetof(TorchShim, grad_mode)},
    {"_ZN5torch3jit6tracer15getTracingStateEv", offsetof(TorchShim, tracing_state)},
    {"_ZN3c104impl20TorchDispatchModeTLS13any_modes_setEb", offsetof(TorchShim, any_modes)},
};

struct DtypeSymbol {
  const char* name;
  DLDataType type;
};
constexpr DtypeSymbol kDtypeSymbols[] = {
    {"bool", {kDLBool, 8, 1}},
    {"uint8", {kDLUInt, 8, 1}},
    {"uint16", {kDLUInt, 16, 1}},
    {"uint32", {kDLUInt, 32, 1}},
    {"uint64", {kDLUInt, 64, 1}},
    {"int8", {kDLInt, 8, 1}},
    {"int16", {kDLInt, 16, 1}},
    {"int32", {kDLInt, 32, 1}},
    {"int64", {kDLInt, 64, 1}},
    {"float16", {kDLFloat, 16, 1}},
    {"bfloat16", {kDLBfloat, 16, 1}},
    {"float32", {kDLFloat, 32, 1}},
    {"float64", {kDLFloat, 64, 1}},
    {"complex32", {kDLComplex, 32, 1}},
    {"complex64", {kDLComplex, 64, 1}},
    {"complex128", {kDLComplex, 128, 1}},
    {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
    {"float8_e5m2", {kDLFloat8_e5m2, 8, 1}},
    {"float8_e4m3fnuz", {kDLFloat8_e4m3fnuz, 8, 1}},
    {"float8_e5m2fnuz", {kDLFloat8_e5m2fnuz, 8, 1}},
    {"float8_e8m0fnu", {kDLFloat8_e8m0fnu, 8, 1}},
    {"float4_e2m1fn_x2", {kDLFloat4_e2m1fn, 4, 2}},
};

constexpr int kDtypeCount = 64;
constexpr int kDeviceCount = 64;

TorchShim g_shim;
DLDataType g_dtypes[kDtypeCount];
uint8_t g_devices[kDeviceCount];  // DLDeviceType, or 0
int32_t g_strided = 0;
size_t g_pointer_offset = 0;
enum class Probe { kNotYet, kAgrees, kDisagrees };
Probe g_probe = Probe::kNotYet;

inline TensorHandle handle_of(PyObject* tensor) {
  return reinterpret_cast<const char*>(tensor) + g_pointer_offset;
}

bool find_symbols(void* library) {
  for (const Symbol& symbol : kSymbols) {
    void* address = dlsym(library, symbol.name);
    if (address == nullptr) return false;
    std::memcpy(reinterpret_cast<char*>(&g_shim) + symbol.offset, &address, sizeof(address));
  }
  return true;
}

int32_t call_number(void* library, const char* prefix, const char* name) {
  char symbol[64];
  std::snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
  auto function = reinterpret_cast<int32_t (*)()>(dlsym(library, symbol));
  return function == nullptr ? -1 : function();
}

void fill_numbers(void* library) {
  g_strided = g_shim.layout_strided();
  std::memset(g_dtypes, 0, sizeof(g_dtypes));
  for (const DtypeSymbol& symbol : kDtypeSymbols) {
    int32_t number = call_number(library, "aoti_torch_dtype_", symbol.name);
    if (number >= 0 && number < kDtypeCount) g_dtypes[number] = symbol.type;
  }
  Reference hip(imported_attribute("torch.version", "hip"));
  bool is_rocm = hip && hip.get() != Py_None;
  const struct {
    const char* name;
    DLDeviceType type;
  } devices[] = {
      {"cpu", kDLCPU},
      {"cuda", is_rocm ? kDLROCM : kDLCUDA},
      {"xpu", kDLOneAPI},
      {"mps", kDLMetal},
      {"privateuse1", kDLExtDev},
  };
  std::memset(g_devices, 0, sizeof(g_devices));
  for (const auto& device : devices) {
    int32_t number = call_number(library, "aoti_torch_device_type_", device.name);
    if (number >= 0 && number < kDeviceCount) g_devices[number] = static_cast<uint8_t>(device.type);
  }
}

// The offset at which every probe keeps the pointer in its `_cdata`, or 0.
size_t find_pointer_offset(PyObject* const* probes, size_t count) {
  for (size_t offset = sizeof(PyObject); offset <= sizeof(PyObject) + 32; offset += sizeof(void*)) {
    bool matches = true;
    for (size_t index = 0; index < count && matches; ++index) {
      Reference pointer(PyObject_GetAttr(probes[index], g_names._cdata));
      if (!pointer) return 0;
      void* expected = PyLong_AsVoidPtr(pointer.get());
      void* found;
      std::memcpy(&found, reinterpret_cast<const char*>(probes[index]) + offset, sizeof(found));
      matches = found != nullptr && found == expected;
    }
    if (matches) return offset;
  }
  return 0;
}

bool shape_agrees(PyObject* tuple, const int64_t* values, int32_t ndim) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != ndim) return false;
  for (int32_t axis = 0; axis < ndim; ++axis) {
    if (PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, axis)) != values[axis]) return false;
  }
  return true;
}

bool probe_reads_right(PyObject* probe, DLDataType dtype) {
  Scratch scratch;
  TensorView view;
  TypeEntry entry;
  if (read_torch(probe, entry, scratch, &view) != 0) return false;
  const DLTensor& tensor = view.tensor;
  Reference data(PyObject_CallMethod(probe, "data_ptr", nullptr));
  Reference shape(PyObject_GetAttrString(probe, "shape"));
  Reference strides(PyObject_CallMethod(probe, "stride", nullptr));
  return data && shape && strides && tensor.data == PyLong_AsVoidPtr(data.get()) &&
         tensor.device.device_type == kDLCPU && std::memcmp(&tensor.dtype, &dtype, sizeof(dtype)) == 0 &&
         shape_agrees(shape.get(), tensor.shape, tensor.ndim) &&
         shape_agrees(strides.get(), tensor.strides, tensor.ndim);
}

inline bool requires_grad(PyObject* tensor) {
  const void* implementation;
  std::memcpy(&implementation, handle_of(tensor), sizeof(implementation));
  return g_shim.requires_grad(implementation);
}

// Whether writes are counted as torch counts them, and gradients seen: the probe requires one from here on.
bool probe_counts_right(PyObject* probe) {
  Reference before(PyObject_GetAttrString(probe, "_version"));
  if (!before || requires_grad(probe)) return false;
  bump_version(probe);
  Reference after(PyObject_GetAttrString(probe, "_version"));
  if (!after || PyLong_AsLong(after.get()) != PyLong_AsLong(before.get()) + 1) return false;
  Reference followed(PyObject_CallMethod(probe, "requires_grad_", nullptr));
  return followed && requires_grad(probe);
}

// A probe tensor on the CPU, whatever the program's defaults.
Reference make_probe(PyObject* torch, const char* dtype, PyObject* shape) {
  Reference type(PyObject_GetAttrString(torch, dtype));
  Reference empty(PyObject_GetAttrString(torch, "empty"));
  Reference arguments(PyTuple_Pack(1, shape));
  Reference options(type ? Py_BuildValue("{sOss}", "dtype", type.get(), "device", "cpu") : nullptr);
  if (!empty || !arguments || !options) return Reference();
  return Reference(PyObject_Call(empty.get(), arguments.get(), options.get()));
}

Probe verify(PyObject* torch, PyTypeObject* tensor_type) {
  Reference shapes(Py_BuildValue("((ii)()(iiiiiii))", 3, 5, 1, 2, 3, 1, 2, 0, 1));
  if (!shapes) return Probe::kDisagrees;
  Reference plain = make_probe(torch, "float32", PyTuple_GET_ITEM(shapes.get(), 0));
  Reference scalar = make_probe(torch, "int64", PyTuple_GET_ITEM(shapes.get(), 1));
  Reference deep = make_probe(torch, "bfloat16", PyTuple_GET_ITEM(shapes.get(), 2));
  Reference complex = make_probe(torch, "complex64", PyTuple_GET_ITEM(shapes.get(), 0));
  if (!plain || !scalar || !deep || !complex) return Probe::kDisagrees;
  // Inside a mode that intercepts the factories these are not plain tensors, and prove nothing.
  if (Py_TYPE(plain.get()) != tensor_type) return Probe::kNotYet;
  Reference transposed(PyObject_CallMethod(plain.get(), "t", nullptr));
  Reference conjugate(PyObject_CallMethod(complex.get(), "conj", nullptr));
  Reference negative(PyObject_CallMethod(plain.get(), "_neg_view", nullptr));
  if (!transposed || !conjugate || !negative) return Probe::kDisagrees;
  PyObject* probes[] = {plain.get(), scalar.get(), deep.get(), complex.get(), transposed.get()};
  g_pointer_offset = find_pointer_offset(probes, 5);
  if (g_pointer_offset == 0) return Probe::kDisagrees;
  bool agrees = probe_reads_right(plain.get(), {kDLFloat, 32, 1}) &&
                probe_reads_right(scalar.get(), {kDLInt, 64, 1}) &&
                probe_reads_right(deep.get(), {kDLBfloat, 16, 1}) &&
                probe_reads_right(complex.get(), {kDLComplex, 64, 1}) &&
                probe_reads_right(transposed.get(), {kDLFloat, 32, 1}) &&
                g_shim.is_neg(handle_of(negative.get())) && !g_shim.is_neg(handle_of(plain.get())) &&
                g_shim.is_conj(handle_of(conjugate.get())) && !g_shim.is_conj(handle_of(complex.get())) &&
                (g_shim.is_inference(handle_of(plain.get())) || probe_counts_right(plain.get()));
  return agrees ? Probe::kAgrees : Probe::kDisagrees;
}

Probe probe_torch() {
  PyObject* torch = imported_module("torch");
  Reference type(imported_attribute("torch", "Tensor"));
  if (torch == nullptr || !type || !PyType_Check(type.get())) return Probe::kNotYet;
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr || !find_symbols(library)) return Probe::kDisagrees;
  fill_numbers(library);
  return verify(torch, reinterpret_cast<PyTypeObject*>(type.get()));
}

}  // namespace

bool prepare_torch() {
  if (g_probe == Probe::kNotYet) {
    g_probe = probe_torch();
    PyErr_Clear();
  }
  return g_probe == Probe::kAgrees;
}

bool torch_probe_pending() { return g_probe == Probe::kNotYet; }

// An inference tensor has no count: autograd refuses to keep it.
void bump_version(PyObject* tensor) {
  TensorHandle handle = handle_of(tensor);
  if (WEFT_LIKELY(!g_shim.is_inference(handle))) g_shim.bump_version(handle);
}

bool may_be_traced() { return *g_shim.tracing_state() != nullptr || g_shim.any_modes(false); }

bool is_followed(PyObject* tensor) { return requires_grad(tensor) && g_shim.grad_mode(); }

int read_torch(PyObject* object, const TypeEntry&, Scratch& scratch, TensorView* view) {
  TensorHandle handle = handle_of(object);
  DLTensor* tensor = &view->tensor;
  int64_t ndim;
  int64_t* shape;
  int64_t* strides;
  int32_t dtype;
  int32_t device;
  int32_t layout;
  int32_t failed = g_shim.get_device_type(handle, &device) | g_shim.get_dtype(handle, &dtype) |
                   g_shim.get_layout(handle, &layout);
  if (WEFT_UNLIKELY(failed != 0 || layout != g_strided)) return explain_torch(object);
  tensor->dtype = g_dtypes[dtype & (kDtypeCount - 1)];
  int device_type = g_devices[device & (kDeviceCount - 1)];
  if (WEFT_UNLIKELY(device_type == 0 || tensor->dtype.bits == 0)) return explain_torch(object);
  if (WEFT_UNLIKELY(g_shim.is_neg(handle))) return explain_torch(object);
  if (WEFT_UNLIKELY(tensor->dtype.code == kDLComplex && g_shim.is_conj(handle))) return explain_torch(object);
  failed = g_shim.get_data_ptr(handle, &tensor->data) | g_shim.get_dim(handle, &ndim);
  if (WEFT_UNLIKELY(failed != 0)) return explain_torch(object);
  failed = g_shim.get_sizes(handle, &shape) | g_shim.get_strides(handle, &strides);
  if (WEFT_UNLIKELY(failed != 0)) return explain_torch(object);
  tensor->device = {static_cast<DLDeviceType>(device_type), 0};
  if (device_type != kDLCPU && g_shim.get_device_index(handle, &tensor->device.device_id) != 0) {
    return explain_torch(object);
  }
  tensor->byte_offset = 0;
  view->read_only = false;
  if (copy_dims(scratch, shape, strides, static_cast<int32_t>(ndim), tensor) != 0) return -1;
  if (WEFT_UNLIKELY(tensor->data == nullptr) && check_data(object, *tensor) != 0) {
    PyErr_Clear();
    return explain_torch(object);
  }
  return 0;
}

}  // namespace weft
