// SPDX-License-Identifier: Apache-2.0
//
// load_binary and unload_binary for Python, and queries of a loaded function.
#include <cstring>

#include "driver/devices/binary.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "python/common.h"
#include "runtime/interpreter.h"

namespace weft {

bool read_handle(PyObject* object, const char* name, void** handle) {
  if (!PyIndex_Check(object)) {
    refuse(PyExc_TypeError, "%s: expected a handle of load_binary, received %s", name,
           Py_TYPE(object)->tp_name);
    return false;
  }
  Reference integer(PyNumber_Index(object));
  if (!integer) return false;
  *handle = PyLong_AsVoidPtr(integer.get());
  if (*handle != nullptr || !PyErr_Occurred()) return true;
  PyErr_Clear();
  refuse(PyExc_ValueError, "%s is %S, which is not a handle of load_binary", name, integer.get());
  return false;
}

namespace {

PyObject* load(PyObject*, PyObject* arguments) {
  const char* name = nullptr;
  Py_buffer data;
  long long shared = 0;
  int device = 0;
  if (!PyArg_ParseTuple(arguments, "sy*Li:load_binary", &name, &data, &shared, &device)) return nullptr;
  const std::string code(static_cast<const char*>(data.buf), static_cast<size_t>(data.len));
  PyBuffer_Release(&data);
  DriverError error;
  BinaryResources resources;
  Binary* binary;
  {
    WithoutGil released;
    binary = load_binary(name, code, shared, device, &resources, &error);
  }
  if (binary == nullptr) return set_python_error(error);
  register_binary(binary);
  return Py_BuildValue("(KKiii)",
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(binary->module)),
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(binary->kernel.function)),
                       resources.registers, resources.spills, resources.max_threads);
}

PyObject* unload(PyObject*, PyObject* module) {
  void* handle = nullptr;
  if (!read_handle(module, "module", &handle)) return nullptr;
  DriverError error;
  if (driver_was_forked()) Py_RETURN_NONE;  // the module is the parent's
  if (!unload_binary(static_cast<cuda::CUmodule>(handle), &error)) return set_python_error(error);
  Py_RETURN_NONE;
}

// The context and handle for a query: of a function of load_binary, or of a foreign one in the current
// context.
struct Query {
  Binary foreign;
  Binary* binary = nullptr;
  ContextGuard guard;

  bool enter(PyObject* function, DriverError* error) {
    void* address = nullptr;
    if (!read_handle(function, "function", &address)) return false;
    auto handle = static_cast<cuda::CUfunction>(address);
    if (!check_function_handle(handle, error) || !ensure_driver(error)) return false;
    binary = find_binary(handle);
    if (binary != nullptr && binary->is_unloaded) {
      return error->value("kernel " + std::string(binary->kernel.name) + " was unloaded");
    }
    if (binary != nullptr) return guard.enter(binary->context, error);
    int32_t device = -1;
    cuda::CUcontext context = nullptr;
    if (!choose_context(&device, nullptr, &context, error) || !guard.enter(context, error)) return false;
    binary = &foreign;
    return describe_foreign(handle, device_at(device, error), binary) ||
           error->value("the function handle is not one of the current context");
  }
};

PyObject* fail(const DriverError& error) { return PyErr_Occurred() ? nullptr : set_python_error(error); }

bool query_failed(cuda::CUresult result, const char* function, const Binary& binary, DriverError* error) {
  if (result == cuda::CUDA_SUCCESS) return false;
  error->kernel = binary.kernel.name;
  error->cuda(result, function,
              "asking about " + std::string(binary.kernel.name) + " on " + binary.device->text());
  return true;
}

PyObject* attribute(PyObject*, PyObject* arguments) {
  PyObject* function = nullptr;
  int number = 0;
  if (!PyArg_ParseTuple(arguments, "Oi:function_attribute", &function, &number)) return nullptr;
  DriverError error;
  Query query;
  if (!query.enter(function, &error)) return fail(error);
  int value = 0;
  const cuda::CUresult result = driver().cuFuncGetAttribute(&value, number, query.binary->kernel.function);
  if (query_failed(result, "cuFuncGetAttribute", *query.binary, &error)) return fail(error);
  return PyLong_FromLong(value);
}

PyObject* parameters(PyObject*, PyObject* function) {
  DriverError error;
  Query query;
  if (!query.enter(function, &error)) return fail(error);
  if (!query.binary->knows_parameters) Py_RETURN_NONE;
  const std::vector<size_t>& sizes = query.binary->parameter_bytes;
  PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(sizes.size()));
  for (size_t index = 0; result != nullptr && index < sizes.size(); ++index) {
    PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(index), PyLong_FromSize_t(sizes[index]));
  }
  return result;
}

PyObject* occupancy_blocks(PyObject*, PyObject* arguments) {
  PyObject* function = nullptr;
  int threads = 0;
  long long shared = 0;
  if (!PyArg_ParseTuple(arguments, "OiL:occupancy_blocks", &function, &threads, &shared)) return nullptr;
  DriverError error;
  Query query;
  if (!query.enter(function, &error)) return fail(error);
  if (!allow_shared_memory(&query.binary->kernel, query.binary->device, shared, &error)) return fail(error);
  int blocks = 0;
  const cuda::CUresult result = driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &blocks, query.binary->kernel.function, threads, static_cast<size_t>(shared), 0);
  if (query_failed(result, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", *query.binary, &error)) {
    return fail(error);
  }
  return PyLong_FromLong(blocks);
}

// The number of clusters of a size that are resident at once (largest == 0), or the largest size (largest ==
// 1).
PyObject* occupancy_clusters(PyObject*, PyObject* arguments) {
  PyObject* function = nullptr;
  unsigned int block[3], cluster[3];
  long long shared = 0;
  int largest = 0;
  if (!PyArg_ParseTuple(arguments, "O(III)(III)Lp:occupancy_clusters", &function, &block[0], &block[1],
                        &block[2], &cluster[0], &cluster[1], &cluster[2], &shared, &largest)) {
    return nullptr;
  }
  DriverError error;
  Query query;
  if (!query.enter(function, &error)) return fail(error);
  LoadedKernel* kernel = &query.binary->kernel;
  const bool is_large = largest != 0 || cluster[0] * cluster[1] * cluster[2] > 8;
  if (!allow_shared_memory(kernel, query.binary->device, shared, &error)) return fail(error);
  if (is_large && !allow_large_clusters(kernel, query.binary->device, &error)) return fail(error);
  cuda::CUlaunchAttribute attribute{};
  attribute.id = cuda::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  memcpy(attribute.value, cluster, sizeof(cluster));
  const cuda::CUlaunchConfig config{cluster[0],
                                    cluster[1],
                                    cluster[2],
                                    block[0],
                                    block[1],
                                    block[2],
                                    static_cast<unsigned int>(shared),
                                    nullptr,
                                    &attribute,
                                    largest == 0 ? 1u : 0u};
  int count = 0;
  const cuda::CUresult result =
      largest != 0 ? driver().cuOccupancyMaxPotentialClusterSize(&count, kernel->function, &config)
                   : driver().cuOccupancyMaxActiveClusters(&count, kernel->function, &config);
  const char* name = largest != 0 ? "cuOccupancyMaxPotentialClusterSize" : "cuOccupancyMaxActiveClusters";
  if (query_failed(result, name, *query.binary, &error)) return fail(error);
  return PyLong_FromLong(count);
}

PyMethodDef kMethods[] = {
    {"load_binary", load, METH_VARARGS,
     "load_binary(name: str, data: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]\n--\n\n"
     "(module, function, registers, spills, most threads) of a kernel in a cubin, fatbin or PTX."},
    {"unload_binary", unload, METH_O,
     "unload_binary(module: int) -> None\n--\n\nQueues a module of load_binary for unloading."},
    {"function_attribute", attribute, METH_VARARGS,
     "function_attribute(function: int, attribute: int) -> int\n--\n\nA CUfunction_attribute."},
    {"function_parameters", parameters, METH_O,
     "function_parameters(function: int) -> tuple[int, ...] | None\n--\n\n"
     "Bytes of each parameter; None if the driver is older than 12.4."},
    {"occupancy_blocks", occupancy_blocks, METH_VARARGS,
     "occupancy_blocks(function: int, threads: int, shared: int) -> int\n--\n\nBlocks that fit on a "
     "multiprocessor."},
    {"occupancy_clusters", occupancy_clusters, METH_VARARGS,
     "occupancy_clusters(function: int, block: tuple[int, int, int], cluster: tuple[int, int, int], shared: "
     "int, "
     "largest: bool) -> int\n--\n\nClusters that fit on the device at once, or the largest size of one."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_binary(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
