// SPDX-License-Identifier: Apache-2.0
//
// From XLA's call frame to a call through the TVM-FFI ABI. One handler serves all functions: the attribute
// `function` is the name of one in libtvm_ffi's table, so that a program that JAX kept on disk finds it in
// another process. `arguments` says where each argument comes from, a letter each: the next (a)rgument or
// (r)esult of XLA's, the next of `numbers` as an (i)nteger, a (b)ool or the bits of a (f)loat, (n)one, or the
// (s)tream. Runs without the GIL.
#include "xla/handler.h"

#include <cstdio>
#include <cstring>
#include <string_view>

#include "ffi_library.h"
#include "runtime/dtypes.h"

namespace weft::xla {
namespace {

constexpr int kMostArguments = 64;
constexpr int kMostDims = 512;
constexpr size_t kMessageBytes = 4096;

Error* fail(const CallFrame& frame, ErrorCode code, const char* message) {
  ErrorCreate create{sizeof(ErrorCreate), nullptr, message, code};
  return frame.api->error_create(&create);
}

std::string_view view(const Text& text) { return {text.data, text.size}; }

// The attribute of a name, if it has this type.
const void* find(const Attributes& attributes, std::string_view name, AttributeType type) {
  for (int64_t index = 0; index < attributes.size; ++index) {
    if (view(*attributes.names[index]) != name) continue;
    return attributes.types[index] == type ? attributes.values[index] : nullptr;
  }
  return nullptr;
}

// XLA's number of a type → DLPack's; bits are 0 where weft has none.
DLDataType to_dlpack(DataType type) {
  static constexpr struct {
    int32_t xla;
    uint8_t code;
    uint8_t bits;
  } kTypes[] = {
#define ROW(name, code, bits, xla) {xla, code, bits},
      WEFT_DTYPES(ROW)
#undef ROW
  };
  for (const auto& row : kTypes) {
    if (row.xla >= 0 && row.xla == static_cast<int32_t>(type)) return {row.code, row.bits, 1};
  }
  return {0, 0, 1};
}

// The arguments of one call, on the stack of the thread that XLA runs it on.
class Arguments {
 public:
  explicit Arguments(DLDevice device) : device_(device) {}

  TVMFFIAny* values() { return values_; }
  int32_t count() const { return count_; }

  // nullptr, or why the call cannot be made.
  const char* read(const CallFrame& frame, const Text& order, const Array& numbers, void* stream) {
    const auto* bits = static_cast<const int64_t*>(numbers.data);
    int64_t argument = 0;
    int64_t result = 0;
    size_t number = 0;
    if (order.size > kMostArguments) return "a function called by XLA takes at most 64 arguments";
    for (char kind : view(order)) {
      TVMFFIAny& value = values_[count_];
      std::memset(&value, 0, sizeof(value));
      if (kind == 'a' || kind == 'r') {
        const Buffers& buffers = kind == 'a' ? frame.arguments : frame.results;
        int64_t& next = kind == 'a' ? argument : result;
        if (next == buffers.size) return "fewer buffers than the function has tensors";
        if (const char* reason = add_tensor(*buffers.buffers[next++], &value)) return reason;
      } else if (kind == 'n') {
        value.type_index = kTVMFFINone;
      } else if (kind == 's') {
        value.type_index = kTVMFFIOpaquePtr;
        value.v_ptr = stream;
      } else {
        if (number == numbers.size) return "fewer numbers than the function takes";
        value.type_index = kind == 'i' ? kTVMFFIInt : kind == 'b' ? kTVMFFIBool : kTVMFFIFloat;
        value.v_int64 = bits[number++];
      }
      ++count_;
    }
    return nullptr;
  }

 private:
  // XLA's buffers are dense, with the last dim innermost.
  const char* add_tensor(const Buffer& buffer, TVMFFIAny* value) {
    if (used_dims_ + buffer.rank > kMostDims) return "tensors with more than 512 dims in all";
    DLTensor& tensor = tensors_[count_];
    tensor = {buffer.data,
              device_,
              static_cast<int32_t>(buffer.rank),
              to_dlpack(buffer.dtype),
              buffer.dims,
              strides_ + used_dims_,
              0};
    if (tensor.dtype.bits == 0) return "a buffer has a type of elements that weft does not know";
    int64_t stride = 1;
    for (int64_t dim = buffer.rank - 1; dim >= 0; --dim) {
      strides_[used_dims_ + dim] = stride;
      stride *= buffer.dims[dim];
    }
    used_dims_ += buffer.rank;
    value->type_index = kTVMFFIDLTensorPtr;
    value->v_ptr = &tensor;
    return nullptr;
  }

  DLDevice device_;
  int32_t count_ = 0;
  int64_t used_dims_ = 0;
  TVMFFIAny values_[kMostArguments];
  DLTensor tensors_[kMostArguments];
  int64_t strides_[kMostDims];
};

// The error that the function left, in XLA's terms.
Error* report(const CallFrame& frame) {
  TVMFFIObjectHandle raised = nullptr;
  ffi().error_move_from_raised(&raised);
  if (raised == nullptr) return fail(frame, ErrorCode::kInternal, "the function failed without an error");
  const TVMFFIErrorCell& cell = *TVMFFIErrorGetCellPtr(raised);
  const std::string_view kind(cell.kind.data, cell.kind.size);
  char message[kMessageBytes];
  snprintf(message, sizeof(message), "%.*s: %.*s", static_cast<int>(cell.kind.size), cell.kind.data,
           static_cast<int>(cell.message.size), cell.message.data);
  ErrorCode code = ErrorCode::kInternal;
  if (kind == "ValueError" || kind == "TypeError") code = ErrorCode::kInvalidArgument;
  if (kind == "NotImplementedError") code = ErrorCode::kUnimplemented;
  if (kind == "EnvErrorAlreadySet") code = ErrorCode::kCancelled;
  Error* error = fail(frame, code, message);
  ffi().object_dec_ref(raised);
  return error;
}

// Answers XLA's question for the version: its own, since all that is read here is checked by size.
Error* describe(const CallFrame& frame, MetadataExtension* extension) {
  Metadata& metadata = *extension->metadata;
  if (frame.api != nullptr) {
    metadata.version.major = frame.api->version.major;
    metadata.version.minor = frame.api->version.minor;
  } else {
    metadata.version.major = 0;
    metadata.version.minor = 1;
  }
  metadata.traits = 0;
  if (metadata.struct_size >= sizeof(Metadata)) metadata.state_type = 0;
  return nullptr;
}

Error* run(const CallFrame& frame, DLDevice device, void* stream) {
  const void* function = find(frame.attributes, "function", AttributeType::kText);
  const void* order = find(frame.attributes, "arguments", AttributeType::kText);
  const void* numbers = find(frame.attributes, "numbers", AttributeType::kArray);
  if (function == nullptr || order == nullptr || numbers == nullptr) {
    return fail(
        frame, ErrorCode::kInvalidArgument,
        "a call of weft's needs the attributes function, arguments and numbers; use weft.jax.function");
  }
  const Text& name = *static_cast<const Text*>(function);
  const TVMFFIByteArray bytes{name.data, name.size};
  TVMFFIObjectHandle handle = nullptr;
  if (ffi().function_get_global(&bytes, &handle) != 0 || handle == nullptr) {
    char message[kMessageBytes];
    snprintf(message, sizeof(message),
             "this process has no function %.*s: trace the JAX function that calls it here, too",
             static_cast<int>(name.size), name.data);
    return fail(frame, ErrorCode::kNotFound, message);
  }
  Arguments arguments(device);
  TVMFFIAny result{};
  Error* error = nullptr;
  const char* reason =
      arguments.read(frame, *static_cast<const Text*>(order), *static_cast<const Array*>(numbers), stream);
  if (reason != nullptr) {
    error = fail(frame, ErrorCode::kInvalidArgument, reason);
  } else if (ffi().function_call(handle, arguments.values(), arguments.count(), &result) != 0) {
    error = report(frame);
  } else if (result.type_index >= kTVMFFIStaticObjectBegin) {
    ffi().object_dec_ref(result.v_obj);
  }
  ffi().object_dec_ref(handle);
  return error;
}

// Whether XLA asks for a description, or for a stage that has nothing to do.
bool is_answered(CallFrame* frame, Error** answer) {
  for (Extension* extension = frame->extensions; extension != nullptr; extension = extension->next) {
    if (extension->type == kMetadataExtension) {
      *answer = describe(*frame, reinterpret_cast<MetadataExtension*>(extension));
      return true;
    }
  }
  *answer = nullptr;
  return frame->stage != Stage::kExecute;
}

}  // namespace

Error* call_on_cpu(CallFrame* frame) noexcept {
  Error* answer;
  if (is_answered(frame, &answer)) return answer;
  return run(*frame, {kDLCPU, 0}, nullptr);
}

Error* call_on_cuda(CallFrame* frame) noexcept {
  Error* answer;
  if (is_answered(frame, &answer)) return answer;
  const Api& api = *frame->api;
  if (api.struct_size < sizeof(Api)) {
    return fail(*frame, ErrorCode::kUnimplemented,
                "this jaxlib does not tell a handler its device; install a newer one");
  }
  StreamGet stream{sizeof(StreamGet), nullptr, frame->context, nullptr};
  if (Error* error = api.stream_get(&stream)) return error;
  DeviceOrdinalGet device{sizeof(DeviceOrdinalGet), nullptr, frame->context, 0};
  if (Error* error = api.device_ordinal_get(&device)) return error;
  // Launches without a stream of their own use the environment's.
  void* before = nullptr;
  ffi().env_set_stream(kDLCUDA, device.ordinal, stream.stream, &before);
  Error* error = run(*frame, {kDLCUDA, device.ordinal}, stream.stream);
  ffi().env_set_stream(kDLCUDA, device.ordinal, before, nullptr);
  return error;
}

}  // namespace weft::xla
