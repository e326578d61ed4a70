// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver without a GPU: what its functions share. Devices, contexts,
// streams, memory and code are plain objects; handles are their addresses and
// are never reused, so that a freed one is recognized. Every call is recorded,
// can be made to fail, and is refused where the real driver would refuse it.
#ifndef WEFT_TESTS_FAKE_CUDA_FAKE_STATE_H_
#define WEFT_TESTS_FAKE_CUDA_FAKE_STATE_H_

#include <weft/runtime_table.h>

#include <condition_variable>
#include <cstdarg>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "driver/library/driver_functions.h"

namespace fake {

using weft::cuda::CUdeviceptr;
using weft::cuda::CUresult;

struct Device {
  int major = 9, minor = 0;
  int multiprocessors = 4;
  int shared_opt_in = 232448;
  size_t memory = size_t{1} << 30;
  uint64_t pool_threshold = 0;  // bytes that the default pool keeps
};

struct Context {
  int device = 0;
  bool is_primary = false;
  int retains = 0;  // of a primary context
};

// One step of a graph: a kernel, an allocation, a free, or a copy or fill. Memory that a capture allocates
// lives as long as a graph, or an executable made of one, that has the node.
struct Node {
  enum Kind { kKernel, kAllocate, kFree, kWork };
  Kind kind = kKernel;
  struct Function* function = nullptr;
  weft::cuda::CUlaunchConfig config{};
  std::vector<std::string> parameters;
  std::shared_ptr<void> memory;
  std::function<void()> work;
};

struct Graph {
  std::vector<Node> nodes;
};

struct GraphExecutable {
  std::vector<Node> nodes;
};

struct Stream {
  Context* context = nullptr;
  bool is_blocking = false;  // ordered with the legacy default stream
  Graph* capture = nullptr;  // not null while capturing
};

struct Parameter {
  uint32_t offset, bytes;
};

// What a cubin says about one kernel.
struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;  // by ordinal
  int registers = 0;
  int max_threads = 1024;
  int static_shared = 0;
};

struct Image {
  int architecture = 0;  // 90
  bool is_specific = false;
  std::vector<KernelInfo> kernels;
  std::map<std::string, size_t> globals;  // variables, with their sizes
  std::map<std::pair<std::string, int>, weft::cuda::CUdeviceptr>
      memory;  // of each on a device, once asked for
  const KernelInfo* find(const char* name) const;
};

struct Library {
  Image image;
};

struct Module {
  Image image;
  Context* context = nullptr;
};

// A kernel of a library; its attributes are per device.
struct Kernel {
  Library* library = nullptr;
  const KernelInfo* info = nullptr;
  std::map<int, std::map<int, int>> attributes;  // device -> attribute -> value
  std::map<Context*, struct Function*> functions;
};

struct Function {
  const KernelInfo* info = nullptr;
  Context* context = nullptr;
  Kernel* kernel = nullptr;  // NULL: of a module
  Module* module = nullptr;
  std::map<int, int> attributes;
};

struct Allocation {
  size_t bytes = 0;
  int device = 0;
};

struct Event {
  Context* context = nullptr;
  int64_t nanoseconds = 0;  // when it was recorded
  bool is_captured = false;
  bool has_time = true;
};

// The CPU build of a kernel, run in place of device code.
struct CpuKernel {
  weft_cpu_kernel run = nullptr;
  // What a launch needs where threads wait for each other; NULL: as much as it has shared memory.
  int64_t (*scratch_bytes)(const weft_runtime_table* table, const weft_launch* launch) = nullptr;
  const weft_runtime_table* table = nullptr;
};

struct Injection {
  std::string function;
  int countdown = 0;  // calls until it strikes
  CUresult result = 0;
};

struct State {
  std::recursive_mutex mutex;
  int version = 13000;
  int pid = 0;  // of cuInit; 0 before
  std::vector<Device> devices{Device{}};
  std::vector<Context*> primary;  // one per device, made on first retain
  std::unordered_set<std::string> lacking;
  std::vector<Injection> injections;
  weft::cuda::CUlogsCallback log = nullptr;
  void* log_data = nullptr;
  std::string log_text;               // what the next call that fails writes into the log
  CUresult poison = 0;                // what every call in a context returns after a kernel crashed
  std::map<std::string, int> delays;  // microseconds
  std::vector<std::string> calls;
  std::map<std::string, int> counts;
  std::unordered_set<Context*> contexts;
  std::unordered_set<Stream*> streams;
  std::unordered_set<Event*> events;
  std::unordered_set<Graph*> graphs;  // whole ones, not those being captured
  std::unordered_set<GraphExecutable*> executables;
  std::unordered_set<Library*> libraries;
  std::unordered_set<Module*> modules;
  std::unordered_set<Kernel*> kernels;
  std::unordered_set<Function*> functions;
  std::map<CUdeviceptr, Allocation> allocations;
  std::map<CUdeviceptr, size_t> pinned;  // host memory
  CUdeviceptr last_allocation = 0;
  CUdeviceptr last_global = 0;
  std::map<std::string, CpuKernel> cpu_kernels;
  int retains = 0;
  // The device's queue: how much work it takes before a call waits; 0: any amount. No work leaves it but by
  // fake_cuda_limit_queue.
  std::mutex queue_mutex;
  std::condition_variable queue_changed;
  int queue_limit = 0, queued = 0;
};

State& state();
// Takes a place of the queue, as all work does; waits where it is full, without `mutex`.
void enter_queue();
Context*& current_context();  // of this thread
int32_t& capture_mode();      // of this thread: 2 is relaxed
// True where a call that may synchronize would disturb a capture: some stream captures, and this thread has
// not said that it knows what it does.
bool disturbs_a_capture();

// Records the call and its result; refuses it where an injection, a lacking
// cuInit or a fork says so. `needs_init` is false for the few functions that
// work before cuInit.
class Call {
 public:
  Call(const char* function, bool needs_init, const char* format, ...) __attribute__((format(printf, 4, 5)));
  CUresult refused() const { return refused_; }
  CUresult done(CUresult result);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  std::string text_;
  CUresult refused_ = 0;
};

// Parses a cubin; false where it is not a whole one.
bool parse_cubin(const void* data, Image* image);

// The memory of an image's variable on the current context's device. Defined in memory.cpp.
CUresult find_global(Image* image, const char* name, weft::cuda::CUdeviceptr* address, size_t* bytes);
void free_globals(Image* image);

// Runs a checked launch. Defined in launch.cpp.
CUresult run_kernel(const Node& node);

Stream* as_stream(weft::cuda::CUstream stream);  // NULL for the default streams
                                                 // and for dead handles
// The context a call on `stream` belongs to; NULL with `result` where the
// handle is dead or none is current.
Context* context_of(weft::cuda::CUstream stream, CUresult* result);
// The function of a CUfunction or a CUkernel in that context; loads it
// there like the driver's lazy loading.
Function* function_in(void* handle, Context* context, CUresult* result);
bool runs_on(const Image& image, const Device& device);

}  // namespace fake

#define FAKE_ENTER(name, ...)                \
  fake::Call call(#name, true, __VA_ARGS__); \
  if (call.refused() != 0) return call.done(call.refused())
#define FAKE_CHECK(condition, result) \
  if (!(condition)) return call.done(result)

#endif  // WEFT_TESTS_FAKE_CUDA_FAKE_STATE_H_
