// SPDX-License-Identifier: Apache-2.0
//
// The contract between generated host code and the extension: plain C structures and one table of functions.
//
// Generated objects have no undefined symbols except libc's and libm's. Everything else is reached through
// `state->table`. The table's rows are the macro WEFT_RUNTIME_TABLE: name, result, parameters, and the LLVM
// text of the function type; Python reads names and texts from the extension, so that each row is written
// once. Rows are only ever appended, and every change raises WEFT_RUNTIME_TABLE_VERSION.
#ifndef WEFT_RUNTIME_TABLE_H_
#define WEFT_RUNTIME_TABLE_H_

#include <stdint.h>
#include <tvm/ffi/c_api.h>
#include <weft/cpu_cooperative.h>
#include <weft/tensor_map.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_RUNTIME_TABLE_VERSION 27

typedef struct weft_runtime_table weft_runtime_table;
typedef struct weft_code_image weft_code_image;

// How kernels are loaded and which device they run on (docs/executors.md).
enum weft_load_policy { WEFT_LOAD_CONTEXT = 0, WEFT_LOAD_LIBRARY = 1, WEFT_LOAD_TVM_FFI = 2 };

// The target of a wrapper's `handle`. The image owns its default state; `.to(device)` makes another one over
// the same image. `image` is borrowed: holders of the state hold the image.
typedef struct weft_state {
  const weft_runtime_table* table;  // first: generated code reads it without knowing the rest
  weft_code_image* image;
  void* driver_state;    // weft::DeviceProgram of the image (borrowed from it), or NULL: no device code
  int32_t bound_device;  // ordinal chosen by `.to(device)`, or -1: follow stream, tensors, caller
  int32_t load_policy;   // enum weft_load_policy
} weft_state;

// One call, on the wrapper's stack. `device_enter` fills the driver's half, `device_leave` undoes it.
typedef struct weft_call_frame {
  weft_state* state;
  void* stream;          // CUstream or NULL (the legacy default stream)
  int32_t device_type;   // DLDeviceType: kDLCPU or kDLCUDA
  int32_t device;        // ordinal, or -1: the caller's current device
  void* driver_kernels;  // this device's kernel handles, set by device_enter
  void* saved_context;   // the caller's CUcontext, or NULL
  int32_t must_restore;  // 1 when device_enter switched contexts
  int32_t is_home;       // 1 when the kernels were loaded in this context
  void* entered_stream;  // a stream that device_enter found to be of this device
  void* scratch;         // the memory of take_scratch, newest first; NULL at first, where there is any
  void* tensors;         // likewise those of take_tensor
} weft_call_frame;

// The layout of CUlaunchAttribute: an id and a value padded to 64 bytes, 8-byte aligned.
typedef struct weft_launch_attribute {
  uint32_t id;
  uint32_t padding;
  uint64_t value[8];
} weft_launch_attribute;

// One launch as computed by the host function; the launch itself checks ranges.
typedef struct weft_launch {
  int64_t grid[3];   // blocks, not clusters
  int64_t block[3];  // threads
  int64_t shared_memory_bytes;
  const weft_launch_attribute* attributes;
  int64_t attribute_count;
  const char* kernel_name;
  int64_t coresidency;  // CPU only: enum weft_coresidency, and bits of enum weft_launch_check
  // CPU only, since a driver knows them from the kernel: its declared limits, 0 for none.
  int64_t most_threads;
  int64_t cluster[3];  // blocks
} weft_launch;

// Which blocks wait for each other: none; a cluster's, so that the kernel's "blocks" are clusters; the
// grid's, in one call.
enum weft_coresidency {
  WEFT_CORESIDENT_BLOCK = 0,
  WEFT_CORESIDENT_CLUSTER = 1,
  WEFT_CORESIDENT_GRID = 2,
  // The grid if it has at most WEFT_MOST_CORESIDENT blocks, else as if its threads did not wait for others.
  WEFT_CORESIDENT_FEW = 3,
};
enum { WEFT_MOST_CORESIDENT = 1024 };

// Checks of a launch on the CPU by the sanitizer, besides those in the kernel's own code.
enum weft_launch_check {
  WEFT_LAUNCH_INSTRUMENTED = 4,  // what its threads do to memory is kept: sanitizer_access and its family
  WEFT_LAUNCH_CONTINUES = 8,     // a finding does not end it; all are reported when it has ended
  WEFT_LAUNCH_BARRIERS = 16,     // threads that cannot continue are a finding
  WEFT_LAUNCH_SAME_VALUES = 32,  // threads race even if both write the value already there
  WEFT_LAUNCH_ORDERED =
      64,  // threads run in the order that a test has set, of a kernel that the scheduler runs
  WEFT_LAUNCH_BLOCKS = 128,   // blocks too: they do not wait for each other
  WEFT_LAUNCH_TRACED = 256,   // its threads tell what they do: thread_event
  WEFT_LAUNCH_SCRATCH = 512,  // the frame has the scratch memory of the call, whose unwritten bytes are known
};

// How a launch on the CPU overlaps with others of its call; more bits of `coresidency`.
enum weft_launch_overlap {
  WEFT_LAUNCH_HELD = 1024,     // the next launch is programmatic: this one may run, or end, during that
  WEFT_LAUNCH_FOLLOWS = 2048,  // it is programmatic, and the launch before has WEFT_LAUNCH_HELD
  WEFT_LAUNCH_WAITS = 4096,    // likewise, and its kernel calls grid_dependency_wait
};

// Device memory that a launch allocates for all blocks of its grid and frees in stream order: constant data
// in the object. Profile scratch has its own allocator, since it is read later.
enum weft_scratch_kind { WEFT_SCRATCH_GLOBAL = 0, WEFT_SCRATCH_PROFILE = 1 };
typedef struct weft_scratch {
  int64_t bytes_per_block;  // more than 0
  int64_t alignment;        // a power of two
  int32_t parameter;        // which of the launch's parameters is the pointer to it
  int32_t kind;             // enum weft_scratch_kind
} weft_scratch;

// What decides how many clusters of a kernel run at once; constant data in the object.
typedef struct weft_cluster_shape {
  uint32_t block[3];    // threads
  uint32_t cluster[3];  // blocks
  int64_t shared_memory_bytes;
} weft_cluster_shape;

// One CPU kernel of an image: blocks [first, last) in index order; nonzero means an error is recorded in
// `launch`. `scratch` belongs to the worker: `scratch_bytes` of it, 64-byte aligned, not cleared.
typedef struct weft_cpu_launch weft_cpu_launch;
typedef int32_t (*weft_cpu_kernel)(const void* parameters, weft_cpu_launch* launch, int64_t first_block,
                                   int64_t last_block, void* scratch);

struct weft_cpu_launch {
  const weft_runtime_table* table;
  int32_t grid[3];
  int32_t block[3];
  int32_t shared_memory_bytes;
  int32_t failed;  // set by kernel_fail; other workers stop when they see it
  const char* kernel_name;
  int32_t orders;  // bits of enum weft_launch_check: WEFT_LAUNCH_ORDERED, WEFT_LAUNCH_BLOCKS
  void* detector;  // weft::RaceDetector of a launch with checks beyond its kernel's own code, or NULL
  void* overlap;   // weft::Overlap of a launch that overlaps with another one, or NULL
};

// The sentences of failing checks (native/runtime/failure.cpp), each with its exception and the meaning of
// `received` and `wanted`. `place`, `index` and `expected` are the site's; `expected` ends the sentence where
// it says "tail". Python reads the names from the extension.
#define WEFT_FAILURE_KINDS(KIND)                                                              \
  /* fail(number of arguments, expected number) */                                            \
  KIND(argument_count, "TypeError")                                                           \
  /* fail_any; `expected`: "a tensor", "an int" */                                            \
  KIND(argument_kind, "TypeError")                                                            \
  /* fail_unless_empty */                                                                     \
  KIND(null_data, "ValueError")                                                               \
  /* fail_any; `index`: the expected rank */                                                  \
  KIND(tensor_rank, "ValueError")                                                             \
  /* fail(DLDataType as 32 bits, -); `expected`: the name of a dtype */                       \
  KIND(tensor_dtype, "ValueError")                                                            \
  /* fail(DLDevice as 64 bits, expected DLDeviceType) */                                      \
  KIND(device_type, "ValueError")                                                             \
  /* fail(DLDevice as 64 bits, expected ordinal); tail or NULL */                             \
  KIND(device_index, "ValueError")                                                            \
  /* fail_unless_empty(address, alignment in bytes) */                                        \
  KIND(alignment, "ValueError")                                                               \
  /* fail(size, expected size); `index`: the dimension; tail or NULL */                       \
  KIND(dim_value, "ValueError")                                                               \
  /* fail(size, largest size); tail or NULL */                                                \
  KIND(dim_range, "ValueError")                                                               \
  /* fail(size, divisor) */                                                                   \
  KIND(dim_divisibility, "ValueError")                                                        \
  /* fail(stride, expected stride); tail or NULL */                                           \
  KIND(stride_value, "ValueError")                                                            \
  /* fail(stride, -) */                                                                       \
  KIND(stride_range, "ValueError")                                                            \
  /* fail(stride, divisor) */                                                                 \
  KIND(stride_divisibility, "ValueError")                                                     \
  /* fail(value, -) or fail_any; `expected`: "-128 to 127 (i8)" */                            \
  KIND(integer_range, "ValueError")                                                           \
  /* fail(bits of a double, bits of the largest one); `expected`: the name of a dtype */      \
  KIND(float_range, "ValueError")                                                             \
  /* return_argument */                                                                       \
  KIND(returned_view, "ValueError")                                                           \
  /* kernel_fail(block, thread); `place`: file and line, `expected`: the condition's text */  \
  KIND(assertion, "AssertionError")                                                           \
  /* fail(number of items, expected number); tail or NULL */                                  \
  KIND(item_count, "ValueError")                                                              \
  /* fail_any; `index`: the item of a shape that is not an int */                             \
  KIND(shape_item, "TypeError")                                                               \
  /* fail_any; `index`: the item of a shape that is an int beyond 64 bits */                  \
  KIND(shape_item_range, "ValueError")                                                        \
  /* fail(address, alignment in bytes) */                                                     \
  KIND(address_alignment, "ValueError")                                                       \
  /* fail(address, address of the other); `expected`: the sentence's end, from its name on */ \
  KIND(overlap, "ValueError")                                                                 \
  /* fail(-, -), in a host function; `expected`: the sentence */                              \
  KIND(assumption, "AssertionError")

enum weft_failure_kind {
#define WEFT_KIND(name, exception) WEFT_FAILURE_##name,
  WEFT_FAILURE_KINDS(WEFT_KIND)
#undef WEFT_KIND
      WEFT_FAILURE_KIND_COUNT
};

// A place where a check can fail, constant data in the object. The texts are UTF-8 and live as long as the
// image.
typedef struct weft_failure_site {
  const char* signature;  // add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])
  const char* place;      // argument #1 'b'
  const char* expected;   // the expected value in the sentence, or NULL
  int32_t kind;           // enum weft_failure_kind
  int32_t index;          // dimension, rank or line, by kind
} weft_failure_site;

// Findings of the sanitizer in kernels on the CPU (docs/sanitizer.md): the name, the words of a report, and
// the check that finds it, as the option --sanitize calls it. The order is the ABI. The site's values are, of
// an element, the index and then the size of each of the `rank` dimensions of its array; of arithmetic, the
// operands: integers sign-extended, floats as the bits of a double.
// clang-format off: one row, one line
#define WEFT_CHECK_KINDS(KIND) \
  KIND(out_of_bounds, "out of bounds", "bounds") \
  KIND(misaligned, "misaligned", "bounds") \
  KIND(race, "race", "races") \
  KIND(lifetime, "lifetime", "races") \
  KIND(divergent_barrier, "divergent barrier", "barriers") \
  KIND(uninitialized, "uninitialized", "uninit") \
  KIND(asynchrony, "asynchrony", "async") \
  KIND(overflow, "overflow", "overflow") \
  KIND(division_by_zero, "division by zero", "division") \
  KIND(shift_past_the_width, "shift past the width", "shifts") \
  KIND(conversion_out_of_range, "conversion out of range", "conversions") \
  KIND(new_nan, "new NaN", "nan")
// clang-format on

enum weft_check_kind {
#define WEFT_KIND(name, words, check) WEFT_CHECK_##name,
  WEFT_CHECK_KINDS(WEFT_KIND)
#undef WEFT_KIND
      WEFT_CHECK_KIND_COUNT
};

// Properties of an instrumented access; bits of weft_check_site.flags.
enum weft_access_flag {
  WEFT_ACCESS_READS = 1,
  WEFT_ACCESS_WRITES = 2,
  WEFT_ACCESS_ATOMIC = 4,  // or volatile: two of them do not race
  WEFT_ACCESS_ACQUIRES = 8,
  WEFT_ACCESS_RELEASES = 16,
  WEFT_ACCESS_BLOCK = 32,     // atomic for the threads of its block only
  WEFT_ACCESS_AWAITED = 64,   // of a loop that waits for a plain store
  WEFT_ACCESS_SHARED = 128,   // memory that begins anew with a block, or its cluster
  WEFT_ACCESS_LOCAL = 256,    // a thread's own
  WEFT_ACCESS_RACES = 512,    // look for races
  WEFT_ACCESS_UNINIT = 1024,  // look for reads of unwritten memory
  WEFT_ACCESS_ASYNC = 2048,   // look for copies in flight
  // It is done asynchronously, until one waits: a thread's copy of elements, a copy that reports to the
  // phase of an mbarrier, one out of shared memory, a wgmma.
  WEFT_ACCESS_ELEMENTS = 4096,
  WEFT_ACCESS_PHASE = 8192,
  WEFT_ACCESS_STORE = 16384,
  WEFT_ACCESS_MMA = 32768,
  WEFT_ACCESS_PUBLISHES = 65536,  // a plain store for which a loop may wait
  WEFT_ACCESS_SCRATCH = 131072,   // of global memory, which may be that of weft.scratch
};

// What else orders threads, or begins an array; for sanitizer_event.
enum weft_race_event {
  WEFT_EVENT_FENCE = 0,
  WEFT_EVENT_ARRIVE = 1,        // at the mbarrier whose word is at the address
  WEFT_EVENT_WAIT = 2,          // has ended, for a phase of it
  WEFT_EVENT_DECLARE = 3,       // `bytes` of a thread's own array begin
  WEFT_EVENT_PROXY_FENCE = 4,   // writes so far to shared memory (`bytes`: 0) or global (1) are visible
                                // for asynchronous copies
  WEFT_EVENT_COMMIT = 5,        // the thread's copies of elements are a group
  WEFT_EVENT_ELEMENTS = 6,      // all groups are complete but the newest `bytes` of them
  WEFT_EVENT_STORES = 7,        // the same for copies out of shared memory
  WEFT_EVENT_WGMMA = 8,         // a wgmma of its warpgroup begins
  WEFT_EVENT_WGMMA_WAIT = 9,    // as for stores
  WEFT_EVENT_RENDEZVOUS = 10,   // `bytes` threads from this one on have met
  WEFT_EVENT_END = 11,          // the thread has returned; the address is that of a weft_check_site
  WEFT_EVENT_STORE = 12,        // a copy out of shared memory has begun
  WEFT_EVENT_STORES_READ = 13,  // as for stores; only their reads are complete
  WEFT_EVENT_ITERATION =
      14,  // an iteration of weft.each begins (`bytes`: 1), or all of the thread's have ended (0)
};

// A place in a kernel that the sanitizer checks, constant data in the object. The texts are UTF-8 and live as
// long as the image.
typedef struct weft_check_site {
  const char* excerpt;  // file and line, the source line, a caret, the calls that inlined it
  const char* places;   // the same as data, for weft.SanitizerError
  const char* array;    // as the user wrote it; of arithmetic the type
  const char* access;   // "read", "written" or "updated"; of arithmetic the operator
  int32_t kind;         // enum weft_check_kind; unused of an instrumented access, which has several
  int32_t rank;         // of the array; of arithmetic the number of operands
  int32_t count;        // adjacent elements along the last dimension that are accessed at once
  int32_t bytes;        // of an element
  int32_t flags;        // bits of enum weft_access_flag
  int32_t sharer;       // the array's number among those of a kernel that reuse memory; 0: none of them
} weft_check_site;

#define WEFT_RUNTIME_TABLE(ROW)                                                                              \
  /* Sets the FFI error of `site` and returns -1. `received` and `wanted` by kind. */                        \
  ROW(fail, int32_t, (const weft_failure_site* site, int64_t received, int64_t wanted),                      \
      "i32 (ptr, i64, i64)")                                                                                 \
  /* The same for a whole argument: reports its kind, dtype, rank or device. */                              \
  ROW(fail_any, int32_t, (const weft_failure_site* site, const TVMFFIAny* received), "i32 (ptr, ptr)")       \
  /* The stream that the FFI environment holds for a device. */                                              \
  ROW(environment_stream, void*, (int32_t device_type, int32_t device), "ptr (i32, i32)")                    \
  /* Loads the image's kernels once for the frame's device and makes its context current if it is not. */    \
  ROW(device_enter, int32_t, (weft_call_frame * frame), "i32 (ptr)")                                         \
  /* Restores what device_enter changed, whatever happened since; returns `code`, or -1 if that fails. */    \
  ROW(device_leave, int32_t, (weft_call_frame * frame, int32_t code), "i32 (ptr, i32)")                      \
  ROW(launch_device, int32_t,                                                                                \
      (weft_call_frame * frame, int32_t kernel, const weft_launch* launch, void** parameters),               \
      "i32 (ptr, i32, ptr, ptr)")                                                                            \
  ROW(launch_cpu, int32_t,                                                                                   \
      (weft_call_frame * frame, weft_cpu_kernel kernel, const weft_launch* launch, const void* parameters,   \
       int64_t parameter_bytes, int64_t scratch_bytes),                                                      \
      "i32 (ptr, ptr, ptr, ptr, i64, i64)")                                                                  \
  /* A failed assert in a CPU kernel: records the error in `launch` and returns 1. */                        \
  ROW(kernel_fail, int32_t,                                                                                  \
      (weft_cpu_launch * launch, const weft_failure_site* site, int64_t block, int64_t thread),              \
      "i32 (ptr, ptr, i64, i64)")                                                                            \
  /* Moves `count` owned values into a new ffi.Array, stored in `result`. */                                 \
  ROW(make_array, int32_t, (const TVMFFIAny* values, int64_t count, TVMFFIAny* result),                      \
      "i32 (ptr, i64, ptr)")                                                                                 \
  /* Adds a reference to an argument that is returned (it arrived as an object, not as a DLTensor*). */      \
  ROW(return_argument, int32_t,                                                                              \
      (const weft_failure_site* site, const TVMFFIAny* argument, TVMFFIAny* result), "i32 (ptr, ptr, ptr)")  \
  /* 0 where the tensor has no elements; otherwise as `fail`. */                                             \
  ROW(fail_unless_empty, int32_t,                                                                            \
      (const weft_failure_site* site, const DLTensor* tensor, int64_t received, int64_t wanted),             \
      "i32 (ptr, ptr, i64, i64)")                                                                            \
  /* A u64 argument that is not a small non-negative integer: stores a BigInt's value, or fails. */          \
  ROW(decode_u64, int32_t,                                                                                   \
      (const weft_failure_site* kind, const weft_failure_site* range, const TVMFFIAny* argument,             \
       uint64_t* value),                                                                                     \
      "i32 (ptr, ptr, ptr, ptr)")                                                                            \
  /* Bits of a double in a narrower float type (DLDataType as 32 bits), to nearest even; -1: it failed */    \
  /* because a finite value is beyond the type's range. Where the type has no infinity: its largest value.   \
   */                                                                                                        \
  ROW(narrow_float, int64_t, (const weft_failure_site* site, int32_t dtype, double value),                   \
      "i64 (ptr, i32, double)")                                                                              \
  /* The double that equals a value of a narrower float type. */                                             \
  ROW(widen_float, double, (int32_t dtype, int64_t bits), "double (i32, i64)")                               \
  /* Stores an unsigned integer as an int, or as a BigInt from 2^63. */                                      \
  ROW(make_u64, int32_t, (uint64_t value, TVMFFIAny* result), "i32 (i64, ptr)")                              \
  /* Drops the references of `count` owned values. */                                                        \
  ROW(release_values, void, (const TVMFFIAny* values, int64_t count), "void (ptr, i64)")                     \
  /* Called periodically by a CPU kernel's loops that may never end; nonzero: leave the kernel with 1. */    \
  ROW(kernel_poll, int32_t, (weft_cpu_launch * launch), "i32 (ptr)")                                         \
  /* The number of the thread that runs a CPU kernel; 0 is the one that launched it. */                      \
  ROW(worker_number, int32_t, (void), "i32 ()")                                                              \
  /* Nanoseconds of the machine's monotonic clock. */                                                        \
  ROW(read_clock, int64_t, (void), "i64 ()")                                                                 \
  /* Scratch for a launch of a kernel whose threads wait for each other. */                                  \
  ROW(cooperative_scratch_bytes, int64_t,                                                                    \
      (const weft_cooperative_kernel* kernel, const weft_launch* launch), "i64 (ptr, ptr)")                  \
  /* Blocks [first, last) of such a kernel; nonzero: an error is set. */                                     \
  ROW(run_cooperative, int32_t,                                                                              \
      (const weft_cooperative_kernel* kernel, const void* parameters, weft_cpu_launch* launch,               \
       int64_t first, int64_t last, void* scratch),                                                          \
      "i32 (ptr, ptr, ptr, i64, i64, ptr)")                                                                  \
  /* The sizes of a shape, given as ffi.Shape, ffi.Array or ffi.List of `count` ints; or fails. */           \
  ROW(decode_shape, int32_t,                                                                                 \
      (const weft_failure_site* kind, const weft_failure_site* size, const weft_failure_site* item,          \
       const TVMFFIAny* argument, int64_t count, int64_t* sizes),                                            \
      "i32 (ptr, ptr, ptr, ptr, i64, ptr)")                                                                  \
  /* As launch_device, with scratch memory for the grid: its addresses are stored where the parameters       \
   * point,                                                                                                  \
   */                                                                                                        \
  /* and it is freed after the kernel, whatever happens. */                                                  \
  ROW(launch_device_scratch, int32_t,                                                                        \
      (weft_call_frame * frame, int32_t kernel, const weft_launch* launch, void** parameters,                \
       const weft_scratch* scratch, int64_t scratch_count),                                                  \
      "i32 (ptr, i32, ptr, ptr, ptr, i64)")                                                                  \
  /* Memory that this launch of a kernel with a profiler records into; NULL and 0 without a capture. */      \
  /* `words`: on entry the number needed, 0 if only the run can tell; on return the number provided. */      \
  ROW(launch_memory, int32_t,                                                                                \
      (weft_call_frame * frame, void* stream, const char* function, const char* kernel, void** memory,       \
       int64_t* words),                                                                                      \
      "i32 (ptr, ptr, ptr, ptr, ptr, ptr)")                                                                  \
  /* Uninitialized memory for an array, in the order of `stream`; the call has it until release_scratch. */  \
  /* Its address, a multiple of 256, goes to `memory`; NULL without elements. `place` begins messages. */    \
  ROW(take_scratch, int32_t,                                                                                 \
      (weft_call_frame * frame, void* stream, const char* place, int64_t element_bytes,                      \
       const int64_t* sizes, int64_t rank, void** memory),                                                   \
      "i32 (ptr, ptr, ptr, i64, ptr, i64, ptr)")                                                             \
  /* Gives back what was taken since the frame's scratch was `before`, whatever happened; returns `code`,    \
   */                                                                                                        \
  /* or -1 if that fails. */                                                                                 \
  ROW(release_scratch, int32_t, (weft_call_frame * frame, void* before, int32_t code),                       \
      "i32 (ptr, ptr, i32)")                                                                                 \
  /* How many multiprocessors the frame's device has; on the CPU as many as cpu_multiprocessors says. */     \
  ROW(multiprocessors, int32_t, (const weft_call_frame* frame), "i32 (ptr)")                                 \
  /* The map of a tensor: of its address, and `rank` sizes and strides, in elements, slowest first. */       \
  ROW(make_tensor_map, int32_t,                                                                              \
      (weft_call_frame * frame, const weft_tensor_map_site* site, const void* address, const int64_t* sizes, \
       const int64_t* strides, void* map),                                                                   \
      "i32 (ptr, ptr, ptr, ptr, ptr, ptr)")                                                                  \
  /* A thread of a CPU kernel arrives at a barrier in shared memory; nonzero: a weft_mbarrier_request. */    \
  ROW(mbarrier_arrive, int32_t, (uint64_t* word, int32_t count, int32_t expect_bytes),                       \
      "i32 (ptr, i32, i32)")                                                                                 \
  /* Queue a copy of the running block, of a box at `indices`, slowest first; the load reports to `word`. */ \
  ROW(tma_load, void,                                                                                        \
      (const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,      \
       void* shared, void* word),                                                                            \
      "void (ptr, ptr, ptr, ptr, ptr, ptr)")                                                                 \
  ROW(tma_store, void,                                                                                       \
      (const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,      \
       void* shared, int32_t thread),                                                                        \
      "void (ptr, ptr, ptr, ptr, ptr, i32)")                                                                 \
  /* Completes all but the newest stores of a thread. */                                                     \
  ROW(tma_wait, void, (const weft_cpu_block* block, int32_t thread, int32_t pending),                        \
      "void (ptr, i32, i32)")                                                                                \
  /* Queues a store of at most 16 bytes in any block of the running block's cluster; it reports to a word    \
   * there. */                                                                                               \
  ROW(st_async, void, (const weft_cpu_block* block, void* to, void* word, const void* data, int32_t bytes),  \
      "void (ptr, ptr, ptr, ptr, i32)")                                                                      \
  /* Queue a thread's copy of elements, from `source` or of zeros, end its group of them, complete all but   \
   * the newest groups. */                                                                                   \
  ROW(cp_async_copy, void,                                                                                   \
      (const weft_cpu_block* block, int32_t thread, void* to, const void* source, int32_t bytes),            \
      "void (ptr, i32, ptr, ptr, i32)")                                                                      \
  ROW(cp_async_commit, void, (const weft_cpu_block* block, int32_t thread), "void (ptr, i32)")               \
  ROW(cp_async_wait, void, (const weft_cpu_block* block, int32_t thread, int32_t pending),                   \
      "void (ptr, i32, i32)")                                                                                \
  /* As tma_store; combines each element of the box with the tile's as an enum weft_tma_reduction says. */   \
  ROW(tma_reduce, void,                                                                                      \
      (const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,      \
       void* shared, int32_t thread, int32_t reduction),                                                     \
      "void (ptr, ptr, ptr, ptr, ptr, i32, i32)")                                                            \
  /* As tma_load, into memory of any block of the running block's cluster; reports to a word there. */       \
  ROW(tma_send, void,                                                                                        \
      (const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,      \
       void* shared, void* word),                                                                            \
      "void (ptr, ptr, ptr, ptr, ptr, ptr)")                                                                 \
  /* Queue a bulk copy of the running block: to shared memory, which reports to a word, or from it.          \
   */                                                                                                        \
  ROW(bulk_load, void,                                                                                       \
      (const weft_cpu_block* block, void* shared, const void* source, int32_t bytes, void* word),            \
      "void (ptr, ptr, ptr, i32, ptr)")                                                                      \
  ROW(bulk_store, void,                                                                                      \
      (const weft_cpu_block* block, void* to, void* shared, int32_t bytes, int32_t thread),                  \
      "void (ptr, ptr, ptr, i32, i32)")                                                                      \
  /* How many clusters of a kernel the frame's device holds at once; on the CPU what cpu_max_clusters says.  \
   */                                                                                                        \
  ROW(max_clusters, int32_t,                                                                                 \
      (weft_call_frame * frame, int32_t kernel, const weft_cluster_shape* shape, int32_t* count),            \
      "i32 (ptr, i32, ptr, ptr)")                                                                            \
  /* Records a finding of the sanitizer in `launch` and returns 1, or 0 if the launch continues. */          \
  ROW(sanitizer_fail, int32_t,                                                                               \
      (weft_cpu_launch * launch, const weft_check_site* site, int64_t block, int64_t thread,                 \
       const int64_t* values),                                                                               \
      "i32 (ptr, ptr, i64, i64, ptr)")                                                                       \
  /* A thread is about to access elements from an address on; nonzero: to be followed by sanitizer_fail. */  \
  ROW(sanitizer_access, int32_t,                                                                             \
      (weft_cpu_launch * launch, const weft_check_site* site, int64_t block, int64_t thread,                 \
       const void* address),                                                                                 \
      "i32 (ptr, ptr, i64, i64, ptr)")                                                                       \
  /* The same for `bytes` that are accessed asynchronously; of a phase, that of the mbarrier at `word`.      \
   */                                                                                                        \
  ROW(sanitizer_copy, int32_t,                                                                               \
      (weft_cpu_launch * launch, const weft_check_site* site, int64_t block, int64_t thread,                 \
       const void* address, int64_t bytes, const void* word),                                                \
      "i32 (ptr, ptr, i64, i64, ptr, i64, ptr)")                                                             \
  /* An enum weft_race_event of a thread. */                                                                 \
  ROW(sanitizer_event, void,                                                                                 \
      (weft_cpu_launch * launch, int32_t event, int64_t block, int64_t thread, const void* address,          \
       int64_t bytes),                                                                                       \
      "void (ptr, i32, i64, i64, ptr, i64)")                                                                 \
  /* Traces a place of a thread with `count` values, if it is the thread that a test asks for. The text, of  \
     weft.testing, is constant data of the image. */                                                         \
  ROW(thread_event, void,                                                                                    \
      (weft_cpu_launch * launch, const char* text, int64_t block, int64_t thread, const int64_t* values,     \
       int32_t count),                                                                                       \
      "void (ptr, ptr, i64, i64, ptr, i32)")                                                                 \
  /* As sanitizer_copy for the elements of a tensor that a box of its map has. */                            \
  ROW(sanitizer_box, int32_t,                                                                                \
      (weft_cpu_launch * launch, const weft_check_site* site, int64_t block, int64_t thread,                 \
       const void* map, const weft_tma_tile* tile, const int32_t* indices, const void* word),                \
      "i32 (ptr, ptr, i64, i64, ptr, ptr, ptr, ptr)")                                                        \
  /* As bulk_store; combines elements of a CUtensorMapDataType as an enum weft_tma_reduction says. */        \
  ROW(bulk_reduce, void,                                                                                     \
      (const weft_cpu_block* block, void* to, void* shared, int32_t bytes, int32_t thread,                   \
       int32_t reduction, int32_t data_type),                                                                \
      "void (ptr, ptr, ptr, i32, i32, i32, i32)")                                                            \
  /* An uninitialized tensor of the allocator that the FFI environment has, else of plain memory; the call   \
   * has it until release_tensors. Its address, a multiple of 16 or NULL without elements, goes to `memory`, \
   * its number, which is negative, to `number`. `type`: a DLDataType. */                                    \
  ROW(take_tensor, int32_t,                                                                                  \
      (weft_call_frame * frame, const char* place, int32_t type, const int64_t* sizes, int64_t rank,         \
       void** memory, int32_t* number),                                                                      \
      "i32 (ptr, ptr, i32, ptr, i64, ptr, ptr)")                                                             \
  /* A reference to the tensor of that number, for the caller. */                                            \
  ROW(return_tensor, void, (const weft_call_frame* frame, int32_t number, TVMFFIAny* result),                \
      "void (ptr, i32, ptr)")                                                                                \
  /* Drops the call's references to its tensors. */                                                          \
  ROW(release_tensors, void, (weft_call_frame * frame), "void (ptr)")

struct weft_runtime_table {
  int64_t version;  // WEFT_RUNTIME_TABLE_VERSION of the extension that filled it
#define WEFT_ROW(name, result, parameters, llvm_type) result(*name) parameters;
  WEFT_RUNTIME_TABLE(WEFT_ROW)
#undef WEFT_ROW
};

// Fills nothing and owns nothing: the extension's one table, for every image of the process.
const weft_runtime_table* weft_get_runtime_table(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // WEFT_RUNTIME_TABLE_H_
