// SPDX-License-Identifier: Apache-2.0
//
// The pool: who works on which blocks, and how the threads find and leave a grid.
//
// A worker joins a grid by counting itself in `users` before it looks at `open`; the caller closes the grid
// before it waits for `users` to be zero. Both orders are sequentially consistent, so a worker either sees
// the grid closed or is waited for, and nobody waits for workers that have not woken up yet.
#include "cpu/pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <new>

#include "cpu/interrupt.h"
#include "ffi_library.h"
#include "runtime/failure.h"

namespace weft {
namespace {

constexpr int kSpins = 2000;       // about 50 us of pauses before a worker or the caller sleeps
constexpr int kOpenSpins = 20000;  // the same while others still work on the grid
constexpr int64_t kSpinNanoseconds = 50'000;
constexpr int64_t kTrialBlocks = 32;
// What a grid must have left, by the time its first blocks took, to be worth sharing: with workers that are
// still spinning, and with workers that must be woken (about 50 us until they work).
constexpr int64_t kHotNanoseconds = 4'000;
constexpr int64_t kColdNanoseconds = 100'000;
constexpr int64_t kReleaseNanoseconds = 1'000'000;
// Chunks of blocks: several for each thread, since some take longer than others; each long beside the 150 ns
// that it costs to take one from another thread, and short enough for signals to be heard.
constexpr double kChunksPerThread = 8;
constexpr double kLeastChunkNanoseconds = 2'000;
constexpr double kMostChunkNanoseconds = 5'000'000;
constexpr size_t kScratchAlignment = 64;
constexpr int32_t kMostThreads = 1024;
constexpr timespec kWaitSlice = {0, 50'000'000};

void sleep_while_equal(std::atomic<uint32_t>& word, uint32_t value, const timespec* limit) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// A thread's scratch memory: grows, is used again by the next grid, and is freed with the thread.
class Scratch {
 public:
  ~Scratch() { std::free(memory_); }
  void* reserve(int64_t bytes) {
    const auto wanted = (static_cast<size_t>(bytes) + kScratchAlignment - 1) & ~(kScratchAlignment - 1);
    if (wanted > size_) {
      std::free(memory_);
      memory_ = std::aligned_alloc(kScratchAlignment, wanted);
      size_ = memory_ == nullptr ? 0 : wanted;
    }
    return memory_;
  }

  // Memory of a whole grid may be much more than the next grid needs.
  void release() {
    std::free(memory_);
    memory_ = nullptr;
    size_ = 0;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

thread_local Scratch t_scratch;
thread_local int32_t t_worker = 0;

// A grid while it is being worked on, by the caller alone or with the pool's workers.
struct Run {
  const CpuGrid& grid;
  int64_t chunk;
  std::atomic<int64_t> next;
  std::atomic<int64_t> failed_block{INT64_MAX};
  std::atomic_flag error_lock = ATOMIC_FLAG_INIT;
  TVMFFIObjectHandle error = nullptr;  // owned; of the lowest failed block

  Run(const CpuGrid& grid, int64_t first, int64_t chunk) : grid(grid), chunk(chunk), next(first) {}

  bool stopped() const { return __atomic_load_n(&grid.launch->failed, __ATOMIC_RELAXED) != 0; }
  void stop() const { __atomic_store_n(&grid.launch->failed, 1, __ATOMIC_RELAXED); }

  // The kernel has set this thread's FFI error; it is moved here, for the caller to raise.
  void record_failure(int64_t block) {
    stop();
    TVMFFIObjectHandle raised = nullptr;
    ffi().error_move_from_raised(&raised);
    while (error_lock.test_and_set(std::memory_order_acquire)) _mm_pause();
    if (raised != nullptr && block < failed_block.load(std::memory_order_relaxed)) {
      failed_block.store(block, std::memory_order_relaxed);
      std::swap(error, raised);
    }
    error_lock.clear(std::memory_order_release);
    if (raised != nullptr) ffi().object_dec_ref(raised);
  }

  // Blocks in chunks until there are none left, a block has failed, or (in the caller) a signal has raised.
  void work(void* scratch, bool watch) {
    while (!stopped()) {
      const int64_t first = next.fetch_add(chunk, std::memory_order_relaxed);
      if (first >= grid.blocks) return;
      const int64_t last = std::min(first + chunk, grid.blocks);
      if (grid.kernel(grid.parameters, grid.launch, first, last, scratch) != 0) return record_failure(first);
      if (watch && signal_raised()) return stop();
    }
  }

  int32_t finish() {
    if (!stopped()) return 0;
    const bool interrupted = exception_pending();
    if (!interrupted && error != nullptr) ffi().error_set_raised(error);
    if (error != nullptr) ffi().object_dec_ref(error);
    return interrupted ? raise_error("EnvErrorAlreadySet", "a signal's handler has raised") : -1;
  }
};

struct Pool {
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<uint32_t> users{0};
  std::atomic<Run*> open{nullptr};
  std::atomic<int32_t> sleepers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<int32_t> workers{0};
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  // Of whoever has made the pool busy.
  double small_nanoseconds = 0;  // work of grids, one soon after the other, that was not shared
  int64_t last_small = 0;        // when the last of them was done, by the estimate
};

std::atomic<Pool*> g_pool{nullptr};
std::atomic<int32_t> g_threads{0};
std::atomic<int64_t> g_inline_grids{0};
std::atomic<int64_t> g_shared_grids{0};

int32_t usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, kMostThreads);
}

// A child has none of its parent's threads: it forgets their pool, whose memory stays as it was.
void forget_pool() { g_pool.store(nullptr, std::memory_order_relaxed); }

// The process's pool. It is never freed, since its workers may look at it until the process ends.
Pool* the_pool() {
  Pool* pool = g_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return pool;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  if (registered != 0) return nullptr;
  Pool* made = new (std::nothrow) Pool;
  if (made == nullptr) return nullptr;
  if (g_pool.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return made;
  delete made;
  return pool;
}

struct WorkerStart {
  Pool* pool;
  int32_t number;
};

void join_grid(Pool& pool) {
  pool.users.fetch_add(1);
  Run* run = pool.open.load();
  if (run != nullptr) {
    const int64_t bytes = run->grid.scratch_bytes;
    void* scratch = bytes > 0 ? t_scratch.reserve(bytes) : nullptr;
    // A worker that gets no memory leaves the blocks to the others.
    if (bytes == 0 || scratch != nullptr) run->work(scratch, false);
  }
  if (pool.users.fetch_sub(1) == 1 && pool.caller_sleeps.load()) wake_all(pool.users);
}

void* worker_main(void* argument) {
  auto* start = static_cast<WorkerStart*>(argument);
  Pool& pool = *start->pool;
  t_worker = start->number;
  delete start;
  uint32_t seen = pool.generation.load();
  for (;;) {
    int spins = 0;
    int open_spins = 0;
    while (pool.generation.load(std::memory_order_acquire) == seen) {
      // The caller may come with its next grid as soon as this one is closed.
      const bool is_open = pool.open.load(std::memory_order_relaxed) != nullptr;
      if (is_open ? ++open_spins < kOpenSpins : ++spins < kSpins) {
        _mm_pause();
        continue;
      }
      pool.sleepers.fetch_add(1);
      sleep_while_equal(pool.generation, seen, nullptr);
      pool.sleepers.fetch_sub(1);
    }
    seen = pool.generation.load();
    join_grid(pool);
  }
  return nullptr;
}

// Starts workers until there are `count`, or the system gives no more.
void start_workers(Pool& pool, int32_t count) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Signals are for the program's own threads.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (pool.workers.load() < count) {
    auto* start = new (std::nothrow) WorkerStart{&pool, pool.workers.load() + 1};
    pthread_t thread;
    if (start == nullptr || pthread_create(&thread, &attributes, worker_main, start) != 0) {
      delete start;
      break;
    }
    pool.workers.fetch_add(1);
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Waits until no worker is at the closed grid; the first microseconds without sleeping.
void wait_for_workers(Pool& pool, Run& run, bool watch) {
  for (int spins = 0; spins < 10 * kSpins; ++spins) {
    if (pool.users.load() == 0) return;
    _mm_pause();
  }
  pool.caller_sleeps.store(true);
  for (uint32_t users = pool.users.load(); users != 0; users = pool.users.load()) {
    sleep_while_equal(pool.users, users, &kWaitSlice);
    if (watch && signal_raised()) run.stop();
  }
  pool.caller_sleeps.store(false);
}

// The rest of a grid, with the workers. The caller has made the pool busy.
void share(Pool& pool, Run& run, void* scratch, int32_t threads) {
  const bool watch = watches_signals();
  GilRelease released;
  if (pool.workers.load() < threads - 1) start_workers(pool, threads - 1);
  pool.open.store(&run);
  pool.generation.fetch_add(1);
  if (pool.sleepers.load() > 0) wake_all(pool.generation);
  run.work(scratch, watch);
  pool.open.store(nullptr);
  wait_for_workers(pool, run, watch);
}

int64_t chunk_for(int64_t blocks, int32_t threads, double per_block) {
  const double per_thread = per_block * static_cast<double>(blocks) / threads;
  const auto chunks =
      static_cast<int64_t>(std::clamp(per_thread / kLeastChunkNanoseconds, 1.0, kChunksPerThread));
  const int64_t even = (blocks + threads * chunks - 1) / (threads * chunks);
  const auto timely = static_cast<int64_t>(kMostChunkNanoseconds / std::max(per_block, 0.1));
  return std::min(even, std::max<int64_t>(timely, 1));
}

// Whether work that takes so long is worth waking the workers for: by itself, or together with the grids
// that came just before it, since more are likely to follow. The caller has made the pool busy.
bool worth_waking(Pool& pool, double left, int64_t now) {
  if (now - pool.last_small > kSpinNanoseconds) pool.small_nanoseconds = 0;
  pool.small_nanoseconds += left;
  pool.last_small = now + static_cast<int64_t>(left);
  if (pool.small_nanoseconds < static_cast<double>(kColdNanoseconds)) return false;
  pool.small_nanoseconds = 0;
  return true;
}

// A grid of more than one block: its first blocks tell how long the others will take.
int32_t run_many(const CpuGrid& grid, void* scratch) {
  const int64_t trial = std::clamp<int64_t>(grid.blocks / 64, 1, kTrialBlocks);
  const int64_t before = read_clock();
  if (grid.kernel(grid.parameters, grid.launch, 0, trial, scratch) != 0) return -1;
  const int64_t now = read_clock();
  const double per_block = static_cast<double>(now - before) / static_cast<double>(trial);
  const double left = per_block * static_cast<double>(grid.blocks - trial);
  const int32_t threads = cpu_threads();
  if (threads > 1 && left >= static_cast<double>(kHotNanoseconds)) {
    Pool* pool = the_pool();
    if (pool != nullptr && !pool->busy.test_and_set(std::memory_order_acquire)) {
      const bool hot = pool->workers.load() >= threads - 1 && pool->sleepers.load() == 0;
      const bool worth = hot || worth_waking(*pool, left, now);
      Run run(grid, trial, chunk_for(grid.blocks - trial, threads, per_block));
      if (worth) {
        share(*pool, run, scratch, threads);
        g_shared_grids.fetch_add(1, std::memory_order_relaxed);
      }
      pool->busy.clear(std::memory_order_release);
      if (worth) return run.finish();
    }
  }
  g_inline_grids.fetch_add(1, std::memory_order_relaxed);
  if (left < static_cast<double>(kReleaseNanoseconds)) {
    return grid.kernel(grid.parameters, grid.launch, trial, grid.blocks, scratch) == 0 ? 0 : -1;
  }
  Run run(grid, trial, chunk_for(grid.blocks - trial, 1, per_block));
  {
    const bool watch = watches_signals();
    GilRelease released;
    run.work(scratch, watch);
  }
  return run.finish();
}

}  // namespace

int32_t run_grid(const CpuGrid& grid) {
  void* scratch = nullptr;
  if (grid.scratch_bytes > 0) {
    scratch = t_scratch.reserve(grid.scratch_bytes);
    if (scratch == nullptr) throw std::bad_alloc();
  }
  if (grid.blocks > 1 && !grid.whole) return run_many(grid, scratch);
  g_inline_grids.fetch_add(1, std::memory_order_relaxed);
  if (!grid.whole) return grid.kernel(grid.parameters, grid.launch, 0, grid.blocks, scratch) == 0 ? 0 : -1;
  int32_t code = 0;
  {
    GilRelease released;
    code = grid.kernel(grid.parameters, grid.launch, 0, grid.blocks, scratch);
  }
  t_scratch.release();
  return code == 0 ? 0 : -1;
}

void set_cpu_threads(int32_t count) {
  g_threads.store(std::clamp(count, 0, kMostThreads), std::memory_order_relaxed);
}

int32_t cpu_threads() {
  int32_t count = g_threads.load(std::memory_order_relaxed);
  if (count == 0) {
    count = usable_cpus();
    g_threads.store(count, std::memory_order_relaxed);
  }
  return count;
}

PoolCounts pool_counts() {
  Pool* pool = g_pool.load(std::memory_order_acquire);
  return {g_inline_grids.load(), g_shared_grids.load(), pool == nullptr ? 0 : pool->workers.load()};
}

int32_t kernel_poll(weft_cpu_launch* launch) {
  if (__atomic_load_n(&launch->failed, __ATOMIC_RELAXED) != 0) return 1;
  if (t_worker == 0 && watches_signals() && signal_raised()) {
    __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);
    raise_error("EnvErrorAlreadySet", "a signal's handler has raised");
    return 1;
  }
  return 0;
}

int32_t worker_number() { return t_worker; }

int64_t read_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace weft
