// SPDX-License-Identifier: Apache-2.0
//
// Allocates and frees scratch. Users' allocators are Python; a program that never sets one
// needs no interpreter here.
#include "driver/launch/launch_scratch.h"

#include <atomic>

#include "driver/launch/launch_diagnosis.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_module.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"
#include "python/errors/foreign_error.h"
#include "python/gil.h"

namespace weft {
namespace {

constexpr int64_t kPoolAlignment = 256;

// Called as source(kind, bytes, alignment, stream); None is the pool. Owned, guarded by the GIL; the flag
// spares launches the GIL until an allocator is set.
PyObject* g_source = nullptr;
std::atomic<bool> g_has_source{false};

bool has_no_blocks(const weft_launch& launch) {
  return launch.grid[0] <= 0 || launch.grid[1] <= 0 || launch.grid[2] <= 0;
}

// bytes per block x blocks, or a ValueError with both.
bool total_bytes(const weft_scratch& wanted, const weft_launch& launch, const char* kernel, int64_t* bytes,
                 DriverError* error) {
  // With room for the alignment, so that adding it later cannot overflow either.
  int64_t padded = 0;
  bool overflows = __builtin_add_overflow(wanted.bytes_per_block, wanted.alignment, &padded);
  for (int64_t blocks : launch.grid) overflows = overflows || __builtin_mul_overflow(padded, blocks, &padded);
  if (!overflows) {
    *bytes = wanted.bytes_per_block * launch.grid[0] * launch.grid[1] * launch.grid[2];
    return true;
  }
  error->kernel = kernel;
  return error->value("launch of " + std::string(kernel) + ": " + std::to_string(wanted.bytes_per_block) +
                      " bytes of scratch for each of " + std::to_string(launch.grid[0]) + " x " +
                      std::to_string(launch.grid[1]) + " x " + std::to_string(launch.grid[2]) +
                      " blocks are more than fit 64 bits");
}

// The result of the user's allocator, its address in `*slot`: a new reference, None for the pool, or nullptr
// with an exception. Needs the GIL.
PyObject* ask_source(const weft_scratch& wanted, int64_t bytes, const ScratchPlace& place, void** slot) {
  Reference source(Py_NewRef(g_source));
  Reference memory(or_wait_for_the_end([&] {
    return PyObject_CallFunction(source.get(), "iLLK", int{wanted.kind}, static_cast<long long>(bytes),
                                 static_cast<long long>(wanted.alignment),
                                 reinterpret_cast<unsigned long long>(place.stream));
  }));
  if (!memory || memory.get() == Py_None) return memory.release();
  ParameterType pointer{};
  uint64_t address = 0;
  const ExtractionContext context{place.device, place.check};
  if (!parse_parameter_type("*i8", &pointer)) return nullptr;
  if (extract_parameter(memory.get(), pointer, context, &address) != 0) {
    Reference name(PyUnicode_FromFormat("scratch of %s", place.name));
    if (name) name_argument(name.get(), wanted.parameter, nullptr);
    return nullptr;
  }
  if (address == 0) {
    refuse(PyExc_ValueError, "scratch of %s: the allocator returned the address 0, expected %lld bytes",
           place.name, static_cast<long long>(bytes));
    return nullptr;
  }
  if (address % static_cast<uint64_t>(wanted.alignment) != 0) {
    refuse(PyExc_ValueError,
           "scratch of %s: the allocator returned the address %p, expected a multiple of %lld", place.name,
           reinterpret_cast<void*>(address), static_cast<long long>(wanted.alignment));
    return nullptr;
  }
  *slot = reinterpret_cast<void*>(address);
  return memory.release();
}

}  // namespace

cuda::CUdeviceptr allocate_from_pool(size_t bytes, cuda::CUstream stream, int32_t device,
                                     const std::string& what, DriverError* error) {
  cuda::CUdeviceptr address = 0;
  const cuda::CUresult result = driver().cuMemAllocAsync(&address, bytes, stream);
  if (result == cuda::CUDA_SUCCESS) return address;
  std::string explanation = explain_asynchronous_error(result);
  if (result == cuda::CUDA_ERROR_NOT_SUPPORTED) {
    explanation = "the device has no memory pools; choose another source with weft.set_allocator";
  }
  error->cuda(
      result, "cuMemAllocAsync",
      "allocating " + std::to_string(bytes) + " bytes of " + what + " on cuda:" + std::to_string(device),
      explanation);
  return 0;
}

bool free_to_pool(cuda::CUdeviceptr address, cuda::CUstream stream, int32_t device, DriverError* error) {
  const cuda::CUresult result = driver().cuMemFreeAsync(address, stream);
  if (result == cuda::CUDA_SUCCESS) return true;
  return error->cuda(result, "cuMemFreeAsync", "freeing scratch memory on cuda:" + std::to_string(device),
                     explain_asynchronous_error(result));
}

bool LaunchScratch::take_from_pool(const weft_scratch& wanted, int64_t bytes, void** slot,
                                   DriverError* error) {
  // Stronger alignment than the pool's is reached by moving forward in a larger block.
  const int64_t spare = wanted.alignment > kPoolAlignment ? wanted.alignment : 0;
  const cuda::CUdeviceptr address =
      allocate_from_pool(static_cast<size_t>(bytes + spare), place_.stream, place_.device,
                         "scratch for " + std::string(place_.name), error);
  if (address == 0) return false;
  pooled_.push_back(address);
  const auto alignment = static_cast<cuda::CUdeviceptr>(wanted.alignment);
  const cuda::CUdeviceptr start = spare == 0 ? address : (address + alignment - 1) / alignment * alignment;
  *slot = reinterpret_cast<void*>(start);
  return true;
}

int32_t LaunchScratch::take(const weft_scratch& wanted, const weft_launch& launch, void** slot) {
  *slot = nullptr;
  if (has_no_blocks(launch)) return 0;  // nothing runs, or the launch is refused
  DriverError error;
  int64_t bytes = 0;
  if (!total_bytes(wanted, launch, place_.name, &bytes, &error)) return set_ffi_error(error);
  error.kernel = place_.name;
  return take_bytes(wanted, bytes, slot, &error);
}

int32_t LaunchScratch::take(const weft_scratch& wanted, void** slot) {
  DriverError error;
  return take_bytes(wanted, wanted.bytes_per_block, slot, &error);
}

int32_t LaunchScratch::take_bytes(const weft_scratch& wanted, int64_t bytes, void** slot,
                                  DriverError* error) {
  *slot = nullptr;
  if (g_has_source.load(std::memory_order_relaxed) && interpreter_is_usable()) {
    HeldGil gil;
    Reference memory(ask_source(wanted, bytes, place_, slot));
    if (!memory) return raise_into_ffi();
    if (memory.get() != Py_None) {
      kept_.push_back(memory.release());
      return 0;
    }
  }
  return take_from_pool(wanted, bytes, slot, error) ? 0 : set_ffi_error(*error);
}

bool LaunchScratch::give_back(DriverError* error) {
  bool all = true;
  for (cuda::CUdeviceptr address : pooled_) {
    DriverError later;  // only the first error is reported
    all = free_to_pool(address, place_.stream, place_.device, all ? error : &later) && all;
  }
  pooled_.resize(0);
  for (PyObject* memory : kept_) drop_anywhere(memory);
  kept_.resize(0);
  return all;
}

LaunchScratch::~LaunchScratch() {
  DriverError ignored;  // the launch's own error has been reported
  give_back(&ignored);
}

namespace {

// set_scratch_source(source): source(kind, bytes, alignment, stream) gives memory, or None for the pool.
PyObject* set_scratch_source(PyObject*, PyObject* source) {
  PyObject* previous = g_source;
  g_source = Py_NewRef(source);
  g_has_source.store(true, std::memory_order_relaxed);
  Py_XDECREF(previous);
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"set_scratch_source", set_scratch_source, METH_O,
     "set_scratch_source(source)\n--\n\n"
     "Launches ask source(kind, bytes, alignment, stream) for scratch; None is the driver's pool."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_launch_scratch(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
