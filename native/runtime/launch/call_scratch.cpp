// SPDX-License-Identifier: Apache-2.0
//
// Each array, and each tensor that a call makes for its caller, is a link of a chain that begins in the
// call's frame, so that a call that fails anywhere gives all of them back.
#include "runtime/launch/call_scratch.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "driver/devices/owned_tensor.h"
#include "driver/launch/launch_scratch.h"
#include "ffi_library.h"
#include "runtime/failure.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 256;
constexpr uintptr_t kTensorAlignment = 16;
constexpr size_t kMostKept = size_t{64} << 20;  // bytes that a thread keeps for its next calls
constexpr size_t kMostKeptArrays = 16;
constexpr size_t kLittle = size_t{64} << 10;  // most bytes that a larger array than needed may waste

struct DeviceArray {
  DeviceArray* next;
  LaunchScratch memory;
};

// What precedes the elements of an array on the host.
struct alignas(kAlignment) HostArray {
  HostArray* next;
  size_t bytes;      // with this header
  uint8_t* written;  // see HostScratch; NULL: not asked for yet
};
static_assert(sizeof(HostArray) == kAlignment, "the elements follow, as aligned as the header");

// A tensor that the call may return.
struct CallTensor {
  CallTensor* next;
  TVMFFIObjectHandle handle;  // owned
  int32_t number;             // -1 of the first, -2 of the second
  char* begin;
  int64_t bytes;
  uint8_t* written;  // see HostScratch; NULL: not asked for yet

  CallTensor(CallTensor* following, TVMFFIObjectHandle tensor, char* memory, int64_t size)
      : next(following),
        handle(tensor),
        number(following == nullptr ? -1 : following->number - 1),
        begin(memory),
        bytes(size),
        written(nullptr) {}
  CallTensor(const CallTensor&) = delete;
  CallTensor& operator=(const CallTensor&) = delete;
  ~CallTensor() {
    ffi().object_dec_ref(handle);
    std::free(written);
  }
};

// A thread's arrays without a user, the newest first; freed with the thread.
class KeptArrays {
 public:
  ~KeptArrays() { shrink(0, 0); }

  // The smallest that is large enough and not far too large, else a new one; nullptr without memory.
  HostArray* take(size_t bytes) {
    HostArray** best = nullptr;
    for (HostArray** link = &first_; *link != nullptr; link = &(*link)->next) {
      const size_t size = (*link)->bytes;
      if (size >= bytes && size / 2 <= bytes + kLittle && (best == nullptr || size < (*best)->bytes))
        best = link;
    }
    if (best != nullptr) {
      HostArray* found = *best;
      *best = found->next;
      return found;
    }
    void* made = std::aligned_alloc(kAlignment, bytes);
    return made == nullptr ? nullptr : new (made) HostArray{nullptr, bytes, nullptr};
  }

  void give_back(HostArray* array) {
    std::free(array->written);
    array->written = nullptr;
    array->next = first_;
    first_ = array;
    shrink(kMostKept, kMostKeptArrays);
  }

 private:
  // Frees the oldest beyond that many.
  void shrink(size_t most_bytes, size_t most_arrays) {
    size_t bytes = 0;
    size_t count = 0;
    for (HostArray** link = &first_; *link != nullptr;) {
      HostArray* array = *link;
      if (bytes + array->bytes <= most_bytes && count < most_arrays) {
        bytes += array->bytes;
        ++count;
        link = &array->next;
        continue;
      }
      *link = array->next;
      std::free(array);
    }
  }

  HostArray* first_ = nullptr;
};

thread_local KeptArrays t_kept;

std::string shape_text(const int64_t* sizes, int64_t rank) {
  std::string text = "(";
  for (int64_t index = 0; index < rank; ++index)
    text += (index == 0 ? "" : ", ") + std::to_string(sizes[index]);
  return text + (rank == 1 ? ",)" : ")");
}

// Bytes of an array; -1 with the FFI error set for a negative size, or more bytes than fit 64 bits.
int64_t count_bytes(const char* place, int64_t element_bytes, const int64_t* sizes, int64_t rank) {
  bool is_empty = false;
  for (int64_t index = 0; index < rank; ++index) {
    if (sizes[index] < 0) {
      return raise_error("ValueError", std::string(place) + ": shape[" + std::to_string(index) + "] is " +
                                           std::to_string(sizes[index]) + ", expected 0 or more");
    }
    is_empty |= sizes[index] == 0;
  }
  if (is_empty) return 0;
  int64_t bytes = element_bytes;
  // With room for a header and for rounding up, which then cannot overflow either.
  int64_t padded = 0;
  bool overflows = false;
  for (int64_t index = 0; index < rank; ++index)
    overflows |= __builtin_mul_overflow(bytes, sizes[index], &bytes);
  if (!overflows && !__builtin_add_overflow(bytes, 2 * kAlignment, &padded)) return bytes;
  return raise_error("ValueError", std::string(place) + ": shape " + shape_text(sizes, rank) + " of " +
                                       std::to_string(element_bytes) +
                                       " bytes each takes more bytes than fit 64 bits");
}

int32_t take_on_host(weft_call_frame* frame, const char* place, int64_t bytes, void** memory) {
  const auto rounded = static_cast<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
  HostArray* array = t_kept.take(sizeof(HostArray) + rounded);
  if (array == nullptr) {
    return raise_error("MemoryError",
                       std::string(place) + ": no memory for " + std::to_string(bytes) + " bytes");
  }
  array->next = static_cast<HostArray*>(frame->scratch);
  frame->scratch = array;
  *memory = array + 1;
  return 0;
}

int32_t take_on_device(weft_call_frame* frame, void* stream, const char* place, int64_t bytes,
                       void** memory) {
  if (frame->driver_kernels == nullptr)
    return 0;  // without kernels it is never read, and no device is entered
  auto* array = new DeviceArray{static_cast<DeviceArray*>(frame->scratch),
                                LaunchScratch({place, frame->device, static_cast<cuda::CUstream>(stream)})};
  frame->scratch = array;
  return array->memory.take({bytes, kAlignment, 0, WEFT_SCRATCH_GLOBAL}, memory);
}

// A tensor of the allocator that the caller has set, else with memory of its own; nullptr with the FFI error
// set.
TVMFFIObjectHandle allocate_for_caller(const char* place, DLTensor* prototype) {
  TVMFFIObjectHandle handle = nullptr;
  if (ffi().env_get_allocator() != nullptr)
    return ffi().env_tensor_alloc(prototype, &handle) == 0 ? handle : nullptr;
  DriverError error;
  DLManagedTensorVersioned* managed = make_owned_tensor(*prototype, &error);
  if (managed == nullptr) {
    error.message = std::string(place) + ": " + error.message;
    set_ffi_error(error);
    return nullptr;
  }
  if (ffi().tensor_from_dlpack_versioned(managed, 0, 0, &handle) == 0) return handle;
  managed->deleter(managed);
  raise_error("RuntimeError", std::string(place) + ": libtvm_ffi could not make a tensor of its memory");
  return nullptr;
}

}  // namespace

int32_t take_scratch(weft_call_frame* frame, void* stream, const char* place, int64_t element_bytes,
                     const int64_t* sizes, int64_t rank, void** memory) {
  *memory = nullptr;
  try {
    const int64_t bytes = count_bytes(place, element_bytes, sizes, rank);
    if (bytes <= 0) return static_cast<int32_t>(bytes);
    if (frame->device_type == kDLCPU) return take_on_host(frame, place, bytes, memory);
    return take_on_device(frame, stream, place, bytes, memory);
  } catch (const std::bad_alloc&) {
    return raise_error("MemoryError", "no memory for a call");
  }
}

int32_t release_scratch(weft_call_frame* frame, void* before, int32_t code) {
  if (frame->device_type == kDLCPU) {
    while (frame->scratch != before) {
      auto* array = static_cast<HostArray*>(frame->scratch);
      frame->scratch = array->next;
      t_kept.give_back(array);
    }
    return code;
  }
  while (frame->scratch != before) {
    const std::unique_ptr<DeviceArray> array(static_cast<DeviceArray*>(frame->scratch));
    frame->scratch = array->next;
    DriverError error;
    // Only the first error is reported.
    if (!array->memory.give_back(&error) && code == 0) code = set_ffi_error(error);
  }
  return code;
}

int32_t take_tensor(weft_call_frame* frame, const char* place, int32_t type, const int64_t* sizes,
                    int64_t rank, void** memory, int32_t* number) {
  *memory = nullptr;
  try {
    DLTensor prototype{};
    std::memcpy(&prototype.dtype, &type, sizeof(type));
    const int64_t bytes = count_bytes(place, prototype.dtype.bits / 8, sizes, rank);
    if (bytes < 0) return -1;
    prototype.device = {static_cast<DLDeviceType>(frame->device_type), frame->device};
    if (frame->device_type != kDLCPU && frame->device < 0) {
      if (frame->state->bound_device < 0) {
        return raise_error("ValueError", std::string(place) +
                                             ": the call has no device; pass a tensor or a stream, or "
                                             "call .to(device)");
      }
      prototype.device.device_id = frame->state->bound_device;
    }
    prototype.ndim = static_cast<int32_t>(rank);
    prototype.shape = const_cast<int64_t*>(sizes);
    TVMFFIObjectHandle handle = allocate_for_caller(place, &prototype);
    if (handle == nullptr) return -1;
    const auto* tensor = reinterpret_cast<const DLTensor*>(static_cast<TVMFFIObject*>(handle) + 1);
    char* begin = static_cast<char*>(tensor->data) + tensor->byte_offset;
    auto* made =
        new (std::nothrow) CallTensor{static_cast<CallTensor*>(frame->tensors), handle, begin, bytes};
    if (made == nullptr) {
      ffi().object_dec_ref(handle);
      throw std::bad_alloc();
    }
    frame->tensors = made;
    *number = made->number;
    if (bytes == 0) return 0;
    *memory = begin;
    if (reinterpret_cast<uintptr_t>(begin) % kTensorAlignment == 0) return 0;
    return raise_error("ValueError", std::string(place) +
                                         ": the address of the caller's allocator is not a multiple of " +
                                         std::to_string(kTensorAlignment));
  } catch (const std::bad_alloc&) {
    return raise_error("MemoryError", "no memory for a call");
  }
}

void return_tensor(const weft_call_frame* frame, int32_t number, TVMFFIAny* result) {
  const auto* tensor = static_cast<const CallTensor*>(frame->tensors);
  while (tensor->number != number) tensor = tensor->next;
  ffi().object_inc_ref(tensor->handle);
  result->type_index = kTVMFFITensor;
  result->zero_padding = 0;
  result->v_obj = static_cast<TVMFFIObject*>(tensor->handle);
}

void release_tensors(weft_call_frame* frame) {
  while (frame->tensors != nullptr) {
    const std::unique_ptr<CallTensor> tensor(static_cast<CallTensor*>(frame->tensors));
    frame->tensors = tensor->next;
  }
}

HostScratch find_host_scratch(void* scratch, void* tensors, const void* address) noexcept {
  const auto* place = static_cast<const char*>(address);
  for (auto* array = static_cast<HostArray*>(scratch); array != nullptr; array = array->next) {
    const auto* begin = reinterpret_cast<const char*>(array + 1);
    const size_t bytes = array->bytes - sizeof(HostArray);
    if (place < begin || place >= begin + bytes) continue;
    if (array->written == nullptr) array->written = static_cast<uint8_t*>(std::calloc(bytes, 1));
    return {begin, static_cast<int64_t>(bytes), array->written};
  }
  for (auto* tensor = static_cast<CallTensor*>(tensors); tensor != nullptr; tensor = tensor->next) {
    if (place < tensor->begin || place >= tensor->begin + tensor->bytes) continue;
    if (tensor->written == nullptr) {
      tensor->written = static_cast<uint8_t*>(std::calloc(static_cast<size_t>(tensor->bytes), 1));
    }
    return {tensor->begin, tensor->bytes, tensor->written};
  }
  return {};
}

}  // namespace weft
