// SPDX-License-Identifier: Apache-2.0
//
// Libraries, modules, kernels and functions.
#include "fake_state.h"

using namespace fake;
using namespace weft::cuda;

namespace {

int own_attribute(const KernelInfo& info, int32_t attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return info.max_threads;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return info.static_shared;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return info.registers;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return 49152 - info.static_shared;
    default:
      return 0;
  }
}

int read_attribute(const KernelInfo& info, const std::map<int, int>& changed, int32_t attribute) {
  auto found = changed.find(attribute);
  return found != changed.end() ? found->second : own_attribute(info, attribute);
}

// What may be set, and how far.
bool is_settable(const KernelInfo& info, const fake::Device& device, int32_t attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return value >= 0 && value + info.static_shared <= device.shared_opt_in;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return (value == 0 || value == 1) && device.major >= 9;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return value >= -1 && value <= 100;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, int32_t*, void**, unsigned int jit_count,
                           int32_t*, void**, unsigned int count) {
  FAKE_ENTER(cuLibraryLoadData, "%u, %u", jit_count, count);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  auto* made = new Library;
  if (!parse_cubin(code, &made->image)) {
    delete made;
    return call.done(CUDA_ERROR_INVALID_IMAGE);
  }
  state().libraries.insert(made);
  *library = reinterpret_cast<CUlibrary>(made);
  return call.done(0);
}

CUresult cuLibraryUnload(CUlibrary library) {
  FAKE_ENTER(cuLibraryUnload, "%p", static_cast<void*>(library));
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  auto* doomed = reinterpret_cast<Library*>(library);
  FAKE_CHECK(state().libraries.erase(doomed) != 0, CUDA_ERROR_INVALID_HANDLE);
  free_globals(&doomed->image);
  for (auto kernel = state().kernels.begin(); kernel != state().kernels.end();) {
    if ((*kernel)->library == doomed) {
      for (const auto& loaded : (*kernel)->functions) state().functions.erase(loaded.second);
      kernel = state().kernels.erase(kernel);
    } else {
      ++kernel;
    }
  }
  return call.done(0);
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  FAKE_ENTER(cuLibraryGetKernel, "%p, %s", static_cast<void*>(library), name);
  auto* owner = reinterpret_cast<Library*>(library);
  FAKE_CHECK(state().libraries.count(owner) != 0, CUDA_ERROR_INVALID_HANDLE);
  const KernelInfo* info = owner->image.find(name);
  FAKE_CHECK(info != nullptr, CUDA_ERROR_NOT_FOUND);
  for (Kernel* present : state().kernels) {
    if (present->info == info) {
      *kernel = reinterpret_cast<CUkernel>(present);
      return call.done(0);
    }
  }
  auto* made = new Kernel{owner, info, {}, {}};
  state().kernels.insert(made);
  *kernel = reinterpret_cast<CUkernel>(made);
  return call.done(0);
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  FAKE_ENTER(cuLibraryGetGlobal, "%p, %s", static_cast<void*>(library), name);
  auto* owner = reinterpret_cast<Library*>(library);
  FAKE_CHECK(state().libraries.count(owner) != 0, CUDA_ERROR_INVALID_HANDLE);
  return call.done(find_global(&owner->image, name, address, bytes));
}

CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  FAKE_ENTER(cuModuleGetGlobal, "%p, %s", static_cast<void*>(module), name);
  auto* owner = reinterpret_cast<Module*>(module);
  FAKE_CHECK(state().modules.count(owner) != 0, CUDA_ERROR_INVALID_HANDLE);
  return call.done(find_global(&owner->image, name, address, bytes));
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  FAKE_ENTER(cuKernelGetFunction, "%p", static_cast<void*>(kernel));
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  FAKE_CHECK(state().kernels.count(reinterpret_cast<Kernel*>(kernel)) != 0, CUDA_ERROR_INVALID_HANDLE);
  CUresult result = 0;
  *function = reinterpret_cast<CUfunction>(function_in(kernel, current_context(), &result));
  return call.done(result);
}

CUresult cuKernelGetAttribute(int* value, int32_t attribute, CUkernel kernel, CUdevice device) {
  FAKE_ENTER(cuKernelGetAttribute, "%d, %p, %d", attribute, static_cast<void*>(kernel), device);
  auto* found = reinterpret_cast<Kernel*>(kernel);
  FAKE_CHECK(state().kernels.count(found) != 0, CUDA_ERROR_INVALID_HANDLE);
  *value = read_attribute(*found->info, found->attributes[device], attribute);
  return call.done(0);
}

CUresult cuKernelSetAttribute(int32_t attribute, int value, CUkernel kernel, CUdevice device) {
  FAKE_ENTER(cuKernelSetAttribute, "%d, %d, %p, %d", attribute, value, static_cast<void*>(kernel), device);
  auto* found = reinterpret_cast<Kernel*>(kernel);
  FAKE_CHECK(state().kernels.count(found) != 0, CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(device >= 0 && static_cast<size_t>(device) < state().devices.size(), CUDA_ERROR_INVALID_DEVICE);
  FAKE_CHECK(is_settable(*found->info, state().devices[static_cast<size_t>(device)], attribute, value),
             CUDA_ERROR_INVALID_VALUE);
  found->attributes[device][attribute] = value;
  return call.done(0);
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  FAKE_ENTER(cuFuncGetParamInfo, "%p, %zu", static_cast<void*>(function), index);
  auto* found = reinterpret_cast<Function*>(function);
  FAKE_CHECK(state().functions.count(found) != 0, CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(index < found->info->parameters.size(), CUDA_ERROR_INVALID_VALUE);
  *offset = found->info->parameters[index].offset;
  *bytes = found->info->parameters[index].bytes;
  return call.done(0);
}

CUresult cuFuncLoad(CUfunction function) {
  FAKE_ENTER(cuFuncLoad, "%p", static_cast<void*>(function));
  FAKE_CHECK(state().functions.count(reinterpret_cast<Function*>(function)) != 0, CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return call.done(0);
}

CUresult cuModuleLoadData(CUmodule* module, const void* code) {
  FAKE_ENTER(cuModuleLoadData, "%s", "");
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  auto* made = new Module{{}, current_context()};
  CUresult result = parse_cubin(code, &made->image) ? 0 : CUDA_ERROR_INVALID_IMAGE;
  if (result == 0 && !runs_on(made->image, state().devices[static_cast<size_t>(current_context()->device)])) {
    result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (result != 0) {
    delete made;
    return call.done(result);
  }
  state().modules.insert(made);
  *module = reinterpret_cast<CUmodule>(made);
  return call.done(0);
}

CUresult cuModuleUnload(CUmodule module) {
  FAKE_ENTER(cuModuleUnload, "%p", static_cast<void*>(module));
  FAKE_CHECK(!disturbs_a_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  auto* doomed = reinterpret_cast<Module*>(module);
  FAKE_CHECK(state().modules.count(doomed) != 0, CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(current_context() == doomed->context, CUDA_ERROR_INVALID_CONTEXT);
  state().modules.erase(doomed);
  free_globals(&doomed->image);
  for (auto function = state().functions.begin(); function != state().functions.end();) {
    function = (*function)->module == doomed ? state().functions.erase(function) : std::next(function);
  }
  return call.done(0);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  FAKE_ENTER(cuModuleGetFunction, "%p, %s", static_cast<void*>(module), name);
  auto* owner = reinterpret_cast<Module*>(module);
  FAKE_CHECK(state().modules.count(owner) != 0, CUDA_ERROR_INVALID_HANDLE);
  const KernelInfo* info = owner->image.find(name);
  FAKE_CHECK(info != nullptr, CUDA_ERROR_NOT_FOUND);
  auto* made = new Function{info, owner->context, nullptr, owner, {}};
  state().functions.insert(made);
  *function = reinterpret_cast<CUfunction>(made);
  return call.done(0);
}

CUresult cuFuncGetAttribute(int* value, int32_t attribute, CUfunction function) {
  FAKE_ENTER(cuFuncGetAttribute, "%d, %p", attribute, static_cast<void*>(function));
  auto* found = reinterpret_cast<Function*>(function);
  FAKE_CHECK(state().functions.count(found) != 0, CUDA_ERROR_INVALID_HANDLE);
  *value = read_attribute(*found->info, found->attributes, attribute);
  return call.done(0);
}

CUresult cuFuncSetAttribute(CUfunction function, int32_t attribute, int value) {
  FAKE_ENTER(cuFuncSetAttribute, "%p, %d, %d", static_cast<void*>(function), attribute, value);
  auto* found = reinterpret_cast<Function*>(function);
  FAKE_CHECK(state().functions.count(found) != 0, CUDA_ERROR_INVALID_HANDLE);
  const fake::Device& device = state().devices[static_cast<size_t>(found->context->device)];
  FAKE_CHECK(is_settable(*found->info, device, attribute, value), CUDA_ERROR_INVALID_VALUE);
  found->attributes[attribute] = value;
  return call.done(0);
}

CUresult cuFuncSetCacheConfig(CUfunction function, int32_t preference) {
  FAKE_ENTER(cuFuncSetCacheConfig, "%p, %d", static_cast<void*>(function), preference);
  FAKE_CHECK(state().functions.count(reinterpret_cast<Function*>(function)) != 0, CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(preference >= 0 && preference <= 3, CUDA_ERROR_INVALID_VALUE);
  return call.done(0);
}

}  // extern "C"
