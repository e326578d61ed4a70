// SPDX-License-Identifier: Apache-2.0
//
// Copies between tensors wherever they are, and fills. Host memory is gathered and scattered by the host; the
// driver is given one copy of at most three axes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "driver/devices/device_program.h"
#include "driver/launch/launch_diagnosis.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "driver/python/tensor_memory.h"
#include "ffi_library.h"
#include "python/objects/object.h"
#include "python/objects/owned_object.h"
#include "python/readers/stream.h"
#include "python/readers/torch_version.h"
#include "python/tensors/copy_plan.h"
#include "python/tensors/held_tensor.h"
#include "python/tensors/host_array.h"
#include "python/tensors/tensor_cell.h"
#include "python/values/element.h"
#include "python/values/type_table.h"
#include "runtime/describe.h"
#include "runtime/environment_stream.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

using cuda::CUdeviceptr;
using cuda::CUresult;
using cuda::CUstream;

constexpr int32_t kHost = -1;
constexpr int64_t kMostPitch = INT32_MAX;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device

// A stream and the device whose context it is used in: the default streams are of every device.
struct Queue {
  int32_t device;
  void* stream;
};

int32_t ordinal_of(const DLTensor& tensor) {
  return is_host_memory(tensor.device) ? kHost : tensor.device.device_id;
}

std::string place(int32_t device) { return device == kHost ? "the host" : "cuda:" + std::to_string(device); }

CUdeviceptr device_address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

bool enter(Queue* queue, ContextGuard* guard, DriverError* error) {
  cuda::CUcontext context = nullptr;
  if (!ensure_driver(error)) return false;
  if (queue->device >= 0 && device_at(queue->device, error) == nullptr) return false;
  return choose_context(&queue->device, queue->stream, &context, error) && guard->enter(context, error);
}

// ---- order

void* normal(void* stream) {  // 1 is another name of the default stream
  return reinterpret_cast<uintptr_t>(stream) == 1 ? nullptr : stream;
}

bool record(Queue before, cuda::CUevent* event, DriverError* error) {
  ContextGuard guard;
  if (!enter(&before, &guard, error)) return false;
  CUresult result = driver().cuEventCreate(event, cuda::CU_EVENT_DISABLE_TIMING);
  if (result != cuda::CUDA_SUCCESS) {
    *event = nullptr;
    return error->cuda(result, "cuEventCreate", "ordering two streams", explain_asynchronous_error(result));
  }
  result = driver().cuEventRecord(*event, static_cast<CUstream>(before.stream));
  if (result == cuda::CUDA_SUCCESS) return guard.leave(error);
  return error->cuda(result, "cuEventRecord", "ordering two streams", explain_asynchronous_error(result));
}

bool wait_for(Queue after, cuda::CUevent event, DriverError* error) {
  ContextGuard guard;
  if (!enter(&after, &guard, error)) return false;
  const CUresult result = driver().cuStreamWaitEvent(static_cast<CUstream>(after.stream), event, 0);
  if (result == cuda::CUDA_SUCCESS) return guard.leave(error);
  return error->cuda(result, "cuStreamWaitEvent", "ordering two streams", explain_asynchronous_error(result));
}

// What `after` is given from now on begins when what `before` has been given is done.
bool order(Queue after, Queue before, DriverError* error) {
  if (after.device == before.device && normal(after.stream) == normal(before.stream)) return true;
  cuda::CUevent event = nullptr;
  const bool done = record(before, &event, error) && wait_for(after, event, error);
  if (event != nullptr) destroy_event(event);
  return done;
}

// ---- one copy

// One copy: its sides, size and stream.
struct Copy {
  int32_t to = kHost, from = kHost;  // devices
  Queue queue{kHost, nullptr};
  Queue other{kHost, nullptr};  // of the target's device, if both are devices and no stream was named
  bool named = false;           // the caller named the stream
  bool early = false;           // the caller keeps host memory until the stream has got there
  bool lent = false;            // the driver may use host memory after this has returned

  std::string text(int64_t bytes) const {
    return "copying " + std::to_string(bytes) + " bytes from " + place(from) + " to " + place(to);
  }
  bool uses_host() const { return to == kHost || from == kHost; }
  bool crosses() const { return !uses_host() && to != from; }
};

bool copy_between_devices(const CopyPlan& plan, const Copy& copy, DriverError* error) {
  cuda::CUcontext to = nullptr, from = nullptr;
  int32_t device = copy.to;
  if (!choose_context(&device, nullptr, &to, error)) return false;
  device = copy.from;
  if (!choose_context(&device, nullptr, &from, error)) return false;
  const CUresult result =
      driver().cuMemcpyPeerAsync(device_address(plan.to), to, device_address(plan.from), from,
                                 static_cast<size_t>(plan.bytes), static_cast<CUstream>(copy.queue.stream));
  return result == cuda::CUDA_SUCCESS ||
         error->cuda(result, "cuMemcpyPeerAsync", copy.text(plan.bytes), explain_asynchronous_error(result));
}

// The plan's axes as rows and layers: a layer is a whole number of rows on both sides.
cuda::CUDA_MEMCPY3D as_rows(const CopyPlan& plan) {
  cuda::CUDA_MEMCPY3D rows{};
  const CopyAxis row = plan.axes[0];
  const CopyAxis layer =
      plan.rank == 2 ? plan.axes[1] : CopyAxis{1, row.to * row.count, row.from * row.count};
  rows.srcMemoryType = rows.dstMemoryType = cuda::CU_MEMORYTYPE_UNIFIED;
  rows.srcDevice = device_address(plan.from);
  rows.dstDevice = device_address(plan.to);
  rows.srcPitch = static_cast<size_t>(row.from);
  rows.dstPitch = static_cast<size_t>(row.to);
  rows.srcHeight = static_cast<size_t>(layer.from / row.from);
  rows.dstHeight = static_cast<size_t>(layer.to / row.to);
  rows.WidthInBytes = static_cast<size_t>(plan.run);
  rows.Height = static_cast<size_t>(row.count);
  rows.Depth = static_cast<size_t>(layer.count);
  return rows;
}

// Whether the driver can be given the plan.
bool has_rows(const CopyPlan& plan) {
  if (plan.rank > 2) return false;
  const CopyAxis &row = plan.axes[0], &layer = plan.axes[1];
  if (plan.rank > 0 && (row.from < plan.run || row.to > kMostPitch || row.from > kMostPitch)) return false;
  return plan.rank < 2 || (layer.to % row.to == 0 && layer.from % row.from == 0 &&
                           layer.from / row.from >= row.count && layer.to / row.to >= row.count);
}

bool copy_by_driver(const CopyPlan& plan, const Copy& copy, DriverError* error) {
  const auto queue = static_cast<CUstream>(copy.queue.stream);
  CUresult result;
  if (plan.rank == 0) {
    result = driver().cuMemcpyAsync(device_address(plan.to), device_address(plan.from),
                                    static_cast<size_t>(plan.bytes), queue);
  } else {
    const cuda::CUDA_MEMCPY3D rows = as_rows(plan);
    result = driver().cuMemcpy3DAsync(&rows, queue);
  }
  return result == cuda::CUDA_SUCCESS ||
         error->cuda(result, plan.rank == 0 ? "cuMemcpyAsync" : "cuMemcpy3DAsync", copy.text(plan.bytes),
                     explain_asynchronous_error(result));
}

bool run(const CopyPlan& plan, Copy* copy, DriverError* error) {
  ContextGuard guard;
  const bool joins = copy->crosses() && !copy->named;
  // Between devices a stream may be of either.
  if (copy->crosses() && is_stream_handle(copy->queue.stream)) copy->queue.device = -1;
  if (!enter(&copy->queue, &guard, error)) return false;
  if (copy->crosses() && copy->queue.device != copy->to && copy->queue.device != copy->from) {
    return error->value(copy->text(plan.bytes) + ": the stream is on " + place(copy->queue.device));
  }
  const auto stream = static_cast<CUstream>(copy->queue.stream);
  const bool captured = copy->uses_host() && is_capturing(stream);
  if (captured && !copy->lent) {
    return error->value(
        copy->text(plan.bytes) +
        ": the stream is being captured into a graph, which would use the host's memory later; "
        "take contiguous pinned memory, or copy before the capture");
  }
  if (joins && !order(copy->queue, copy->other, error)) return false;
  if (!(copy->crosses() ? copy_between_devices(plan, *copy, error) : copy_by_driver(plan, *copy, error))) {
    return false;
  }
  const bool waits = copy->uses_host() && !captured && !(copy->lent && (copy->named || copy->early));
  const CUresult result = waits ? driver().cuStreamSynchronize(stream) : cuda::CUDA_SUCCESS;
  if (result != cuda::CUDA_SUCCESS) {
    return error->cuda(result, "cuStreamSynchronize", copy->text(plan.bytes),
                       explain_asynchronous_error(result));
  }
  return (!joins || order(copy->other, copy->queue, error)) && guard.leave(error);
}

// ---- which copy

// Memory that the driver has pinned is copied without passing through other memory.
bool is_pinned(const DLTensor& tensor) {
  if (tensor.device.device_type == kDLCUDAHost) return true;
  uint32_t kind = 0;
  return driver().cuPointerGetAttribute(&kind, cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        device_address(first_element(tensor))) == cuda::CUDA_SUCCESS &&
         kind == cuda::CU_MEMORYTYPE_HOST;
}

int refuse_layout(const DLTensor& to, const DLTensor& from, const char* why) {
  return refuse(
      PyExc_ValueError,
      "%s, to one of shape %s on %s from one on %s; copy through a contiguous tensor on the host, or write "
      "a kernel",
      why, describe_shape(to).c_str(), describe_device(to.device).c_str(),
      describe_device(from.device).c_str());
}

// Contiguous host memory in place of a tensor whose elements have gaps.
class Between {
 public:
  Between() = default;
  ~Between() { std::free(memory_); }
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;
  // 0, or -1 with MemoryError.
  int replace(DLTensor* tensor, int64_t bytes) {
    memory_ = std::malloc(static_cast<size_t>(bytes));
    if (memory_ == nullptr) return PyErr_NoMemory(), -1;
    tensor->data = memory_;
    tensor->byte_offset = 0;
    tensor->strides = nullptr;
    return 0;
  }
  bool is_used() const { return memory_ != nullptr; }

 private:
  void* memory_ = nullptr;
};

// At least one side is on a device; `copy` says where and on which stream. 0, or -1 with an exception.
int copy_with_driver(const DLTensor& target, const DLTensor& source, Copy* copy) {
  DLTensor to = target, from = source;
  CopyPlan plan;
  Between between;
  if (plan_copy(to, from, &plan) != 0) return -1;
  if (plan.bytes == 0) return 0;
  DLTensor* host = copy->to == kHost ? &to : copy->from == kHost ? &from : nullptr;
  if (plan.rank > 0 && host != nullptr && !is_contiguous(*host)) {
    if (between.replace(host, plan.bytes) != 0 || plan_copy(to, from, &plan) != 0) return -1;
    if (host == &from && copy_on_host(from, source) != 0) return -1;
  }
  if (!has_rows(plan) || (copy->crosses() && plan.rank > 0)) {
    return refuse_layout(target, source,
                         copy->crosses() ? "two devices copy contiguous tensors only"
                                         : "the driver has no copy between these strides");
  }
  if (host == nullptr && !copy->crosses() && plan.overlaps()) {
    return refuse_layout(target, source, "the two share memory, and a device copies in no order");
  }
  DriverError error;
  bool done;
  {
    const WithoutGil released;
    done = ensure_driver(&error);
    copy->lent = host == nullptr || (!between.is_used() && (copy->early || (done && is_pinned(*host))));
    done = done && run(plan, copy, &error);
  }
  if (!done) return set_python_error(error), -1;
  return between.is_used() && host == &to ? copy_on_host(target, to) : 0;
}

// A side of a copy; `array` is the caller's object, or nullptr.
struct Side {
  const DLTensor& tensor;
  PyObject* array;
};

// The stream that a call with this array would run on. 0, or -1 with an exception.
int find_stream(const Side& side, void** stream, bool* found) {
  *found = false;
  const TypeEntry* entry = side.array == nullptr ? nullptr : find_type(side.array);
  if (side.array != nullptr && entry == nullptr) return -1;
  if (entry != nullptr && current_stream(side.array, *entry, side.tensor.device, stream, found) != 0)
    return -1;
  if (!*found) *stream = environment_stream(kDLCUDA, side.tensor.device.device_id);
  return 0;
}

// On one device it is the target's or else the source's; between two, the source's and the target's are
// joined.
int choose_queues(const Side& to, const Side& from, Copy* copy) {
  const bool begins_at_target = copy->to != kHost && !copy->crosses();
  const Side& first = begins_at_target ? to : from;
  copy->queue.device = first.tensor.device.device_id;
  if (copy->named) return 0;
  bool found;
  if (find_stream(first, &copy->queue.stream, &found) != 0) return -1;
  if (copy->crosses()) {
    copy->other.device = copy->to;
    return find_stream(to, &copy->other.stream, &found);
  }
  const bool asks_source = begins_at_target && !found && copy->from != kHost;
  return asks_source ? find_stream(from, &copy->queue.stream, &found) : 0;
}

int check_pair(const DLTensor& to, const DLTensor& from) {
  for (const DLTensor* tensor : {&to, &from}) {
    if (is_copied_by_weft(tensor->device)) continue;
    return refuse(PyExc_ValueError, "%s is on %s, expected memory of the host or of a CUDA device",
                  tensor == &to ? "to" : "from_", describe_device(tensor->device).c_str());
  }
  const auto dims = sizeof(int64_t) * static_cast<size_t>(to.ndim);
  if (to.ndim != from.ndim || (dims != 0 && std::memcmp(to.shape, from.shape, dims) != 0)) {
    return refuse(PyExc_ValueError, "to has shape %s, from_ has shape %s; expected the same shape",
                  describe_shape(to).c_str(), describe_shape(from).c_str());
  }
  if (std::memcmp(&to.dtype, &from.dtype, sizeof(to.dtype)) != 0) {
    return refuse(PyExc_ValueError, "to has elements of %s, from_ of %s; a copy converts nothing",
                  describe_dtype(to.dtype).c_str(), describe_dtype(from.dtype).c_str());
  }
  return 0;
}

int copy_sides(const Side& to, const Side& from, Copy copy) {
  if (check_pair(to.tensor, from.tensor) != 0) return -1;
  copy.to = ordinal_of(to.tensor);
  copy.from = ordinal_of(from.tensor);
  if (copy.to == kHost && copy.from == kHost) return copy_on_host(to.tensor, from.tensor);
  return choose_queues(to, from, &copy) != 0 ? -1 : copy_with_driver(to.tensor, from.tensor, &copy);
}

// A stream that a caller named, or none for None. 0, or -1 with an exception.
int read_stream(PyObject* given, Copy* copy) {
  TVMFFIAny value{};
  if (encode_stream(given, &value) != 0) return -1;
  copy->named = given != Py_None;
  copy->queue.stream = value.v_ptr;
  return 0;
}

// Counts the copy as a write, where the target is a tensor of torch. 0, or -1 with an exception.
int write_array(PyObject* target) {
  const TypeEntry* entry = find_type(target);
  if (entry == nullptr) return -1;
  if (entry->family != Family::kTorch) return 0;
  const WrittenTensor written{target, entry, nullptr, true};
  return check_written(target, *entry, true) != 0 ? -1 : count_writes(&written);
}

PyObject* copy_tensor(PyObject*, PyObject* arguments) {
  PyObject *target, *source, *stream = Py_None;
  int early = 0;
  if (!PyArg_ParseTuple(arguments, "OO|Op:copy_tensor", &target, &source, &stream, &early)) return nullptr;
  Copy copy;
  copy.early = early != 0;
  HeldTensor to, from;
  if (read_stream(stream, &copy) != 0 || to.hold_array(target, "to") != 0 ||
      from.hold_array(source, "from_") != 0) {
    return nullptr;
  }
  if (to.read_only || to.copied) {
    refuse(PyExc_ValueError, to.read_only
                                 ? "to is read-only, expected memory that can be written"
                                 : "to is a copy that the array's library made, expected its own memory");
    return nullptr;
  }
  if (write_array(target) != 0) return nullptr;
  if (copy_sides({to.tensor, target}, {from.tensor, source}, copy) != 0) return nullptr;
  Py_RETURN_NONE;
}

// ---- fills

// 64-bit elements whose halves differ have no memset: one is set, and the written part is copied, doubling
// each time.
CUresult set_wide(CUdeviceptr to, const uint32_t* halves, size_t count, CUstream stream,
                  const char** function) {
  *function = "cuMemsetD32Async";
  CUresult result = driver().cuMemsetD32Async(to, halves[0], 1, stream);
  if (result == cuda::CUDA_SUCCESS) result = driver().cuMemsetD32Async(to + 4, halves[1], 1, stream);
  for (size_t done = 1; result == cuda::CUDA_SUCCESS && done < count; done *= 2) {
    *function = "cuMemcpyAsync";
    result = driver().cuMemcpyAsync(to + 8 * done, to, 8 * std::min(done, count - done), stream);
  }
  return result;
}

CUresult set_memory(CUdeviceptr to, const char* element, int64_t item, size_t count, CUstream stream,
                    const char** function) {
  uint32_t halves[2] = {};
  std::memcpy(halves, element, static_cast<size_t>(item));
  if (item == 1) {
    *function = "cuMemsetD8Async";
    return driver().cuMemsetD8Async(to, static_cast<unsigned char>(halves[0]), count, stream);
  }
  if (item == 2) {
    *function = "cuMemsetD16Async";
    return driver().cuMemsetD16Async(to, static_cast<unsigned short>(halves[0]), count, stream);
  }
  if (item == 8 && halves[0] != halves[1]) return set_wide(to, halves, count, stream, function);
  *function = "cuMemsetD32Async";
  return driver().cuMemsetD32Async(to, halves[0], item == 8 ? 2 * count : count, stream);
}

bool fill_on_device(const DLTensor& tensor, size_t count, const char* element, Queue queue,
                    DriverError* error) {
  ContextGuard guard;
  if (!enter(&queue, &guard, error)) return false;
  const char* function = nullptr;
  const CUresult result = set_memory(device_address(first_element(tensor)), element, item_bytes(tensor.dtype),
                                     count, static_cast<CUstream>(queue.stream), &function);
  if (result == cuda::CUDA_SUCCESS) return guard.leave(error);
  return error->cuda(result, function,
                     "filling " + std::to_string(count) + " elements on " + place(queue.device),
                     explain_asynchronous_error(result));
}

PyObject* fill_tensor(PyObject*, PyObject* arguments) {
  PyObject *target, *value, *stream = Py_None;
  if (!PyArg_ParseTuple(arguments, "O!O|O:fill_tensor", tensor_type(), &target, &value, &stream))
    return nullptr;
  HeldTensor to;
  Copy given;
  char element[kMostElementBytes];
  if (to.hold(target) != 0 || read_stream(stream, &given) != 0 ||
      write_element(value, to.tensor.dtype, element) != 0) {
    return nullptr;
  }
  if (ordinal_of(to.tensor) == kHost) {
    if (fill_on_host(to.tensor, element) != 0) return nullptr;
    Py_RETURN_NONE;
  }
  Queue queue{to.tensor.device.device_id, given.queue.stream};
  if (!given.named) queue.stream = environment_stream(kDLCUDA, queue.device);
  const auto count = static_cast<size_t>(count_elements(to.tensor));
  if (count == 0) Py_RETURN_NONE;
  DriverError error;
  bool done;
  {
    const WithoutGil released;
    done = fill_on_device(to.tensor, count, element, queue, &error);
  }
  if (!done) return set_python_error(error);
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"copy_tensor", copy_tensor, METH_VARARGS,
     "copy_tensor(to, from_, stream: object = None, early: bool = False) -> None\n--\n\n"
     "Copies between arrays of one shape and type, wherever they are. Host memory is done with when this "
     "returns,\n"
     "but for pinned memory on a stream that was named, and where `early` says that its owner keeps it."},
    {"fill_tensor", fill_tensor, METH_VARARGS,
     "fill_tensor(tensor: Tensor, value: object, stream: object = None) -> None\n--\n\n"
     "Writes a number everywhere; memory of a device must be contiguous."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

TVMFFIObject* copied_tensor(const DLTensor& source, DLDevice device) {
  OwnedObject made(new_tensor(source.shape, source.ndim, source.dtype, device));
  if (made.get() == nullptr) return nullptr;
  if (copy_sides({*tensor_of(made.get()), nullptr}, {source, nullptr}, Copy()) != 0) return nullptr;
  ffi().object_inc_ref(made.get());
  return made.get();
}

int copy_from_array(const DLTensor& to, PyObject* array) {
  HeldTensor from;
  if (from.hold_array(array, "the value") != 0) return -1;
  return copy_sides({to, nullptr}, {from.tensor, array}, Copy());
}

int order_consumer(int32_t device, void* consumer) {
  const Queue before{device, environment_stream(kDLCUDA, device)}, after{device, consumer};
  if (normal(before.stream) == normal(after.stream)) return 0;
  DriverError error;
  bool done;
  {
    const WithoutGil released;
    done = ensure_driver(&error) &&
           (is_capturing(static_cast<CUstream>(consumer)) || order(after, before, &error));
  }
  return done ? 0 : (set_python_error(error), -1);
}

int add_copy(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
