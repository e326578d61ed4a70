// SPDX-License-Identifier: Apache-2.0
//
// Workers: one cache line per worker for orders, one for answers.
//
// A worker sees a new grid's number in its range, copies the order beside it, and joins by setting a bit of
// the range. If that succeeds the copy belongs to this grid, since the line is not written again before the
// worker has left. The caller closes the ranges of workers that have not joined by setting the same bit, so
// it never waits for sleeping workers, and a worker never touches a finished grid.
#include "cpu/workers.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <memory>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <new>
#include <utility>

#include "cpu/interrupt.h"
#include "cpu/range.h"
#include "cpu/unstarted.h"
#include "ffi_library.h"
#include "hints.h"
#include "runtime/failure.h"

namespace weft {

// A worker's order; its line is written by callers, its range by thieves too.
struct alignas(64) Order {
  std::atomic<uint64_t> range{0};
  std::atomic<weft_cpu_kernel> kernel{nullptr};
  std::atomic<const void*> parameters{nullptr};
  std::atomic<weft_cpu_launch*> launch{nullptr};
  std::atomic<int64_t> first{0};
  std::atomic<int64_t> blocks{0};
  std::atomic<int64_t> chunk{0};
  std::atomic<int64_t> scratch_bytes{0};
};
static_assert(sizeof(Order) == 64);

struct alignas(64) Answer {
  std::atomic<uint32_t> finished{0};  // the last grid that the worker has left
  std::atomic<bool> asleep{false};
};

struct Pool {
  Order orders[kMostCpuThreads];  // 0 is the caller's: only its range is used
  Answer answers[kMostCpuThreads];
  alignas(64) std::atomic<uint32_t> wake{0};  // sleeping workers wait for it to change
  std::atomic<int32_t> workers{0};
  std::atomic<bool> caller_sleeps{false};
  alignas(64) std::atomic<Run*> open{nullptr};  // for workers that have joined
  std::atomic<int32_t> threads{0};              // that share it
  alignas(64) std::atomic_flag busy = ATOMIC_FLAG_INIT;
  // Of the pool's current owner.
  uint32_t epoch = 0;
  double small_nanoseconds = 0;  // unshared work of grids that followed each other closely
  int64_t last_small = 0;        // the estimated end of the last of them
};

namespace {

constexpr int kSpins = 2000;       // about 50 us of pauses before a worker sleeps
constexpr int kOpenSpins = 20000;  // the same while others work on the grid
constexpr int kWaitSpins = 20000;  // before a caller that waits for workers sleeps
constexpr int kSpinsPerLook = 32;  // between two reads of a line that callers write often
constexpr int64_t kSpinNanoseconds = 50'000;
// The work left that is worth waking sleepers for, which takes about 50 us.
constexpr double kColdNanoseconds = 100'000;
constexpr size_t kScratchAlignment = 1024;             // shared memory begins there, with swizzled arrays
constexpr size_t kMostKeptScratch = size_t{64} << 20;  // kept by a thread for its next grid
constexpr timespec kWaitSlice = {0, 50'000'000};

void sleep_while_equal(std::atomic<uint32_t>& word, uint32_t value, const timespec* limit) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// A thread's scratch memory; freed with the thread.
struct ThreadScratch {
  ~ThreadScratch() { std::free(memory); }
  void* memory = nullptr;
  size_t size = 0;
  bool taken = false;
};

size_t scratch_size(int64_t bytes) {
  return (static_cast<size_t>(bytes) + kScratchAlignment - 1) & ~(kScratchAlignment - 1);
}

thread_local ThreadScratch t_scratch;
thread_local int32_t t_worker = 0;
std::atomic<Pool*> g_pool{nullptr};

// A forked child has none of its parent's threads: it drops their pool without touching its memory.
void forget_pool() { g_pool.store(nullptr, std::memory_order_relaxed); }

// One thread's part in a grid, with its own copy of the kernel's arguments.
struct Part {
  weft_cpu_kernel kernel;
  const void* parameters;
  weft_cpu_launch* launch;
  int64_t first;
  int64_t blocks;
  int64_t chunk;
  void* scratch;

  bool stopped() const { return __atomic_load_n(&launch->failed, __ATOMIC_RELAXED) != 0; }

  // False when the grid must stop; `run` is used for errors only.
  bool run_chunk(uint32_t index, const std::atomic<Run*>& run) const {
    const int64_t from = first + chunk * index;
    if (kernel(parameters, launch, from, std::min(from + chunk, blocks), scratch) == 0) return true;
    run.load(std::memory_order_acquire)->record_failure(from);
    return false;
  }
};

// The next of a thread's own chunks, or one of another's; false if none are left.
bool next_chunk(Pool& pool, uint32_t epoch, int32_t self, uint32_t* chunk) {
  std::atomic<uint64_t>& own = pool.orders[self].range;
  while (!take_chunk(own, chunk)) {
    Range stolen;
    const int32_t threads = pool.threads.load(std::memory_order_relaxed);
    int32_t other = self;
    do {
      other = other + 1 < threads ? other + 1 : 0;
      if (other == self) return false;
    } while (!steal_half(pool.orders[other].range, epoch, &stolen));
    own.store(stolen.pack(), std::memory_order_release);
  }
  return true;
}

// The chunks that a thread may still take.
class Chunks final : public Unstarted {
 public:
  Chunks(Pool& pool, const Part& part, uint32_t epoch, int32_t self)
      : pool_(pool), part_(part), epoch_(epoch), self_(self) {}

  bool take(int64_t* first, int64_t* last) override {
    uint32_t chunk = 0;
    if (!next_chunk(pool_, epoch_, self_, &chunk)) return false;
    *first = part_.first + part_.chunk * chunk;
    *last = std::min(*first + part_.chunk, part_.blocks);
    return true;
  }

 private:
  Pool& pool_;
  const Part& part_;
  uint32_t epoch_;
  int32_t self_;
};

// Runs chunks until none are left, a block has failed, or (in the caller) a signal handler has raised.
void work(Pool& pool, const Part& part, uint32_t epoch, int32_t self) {
  const Chunks chunks(pool, part, epoch, self);
  uint32_t chunk = 0;
  while (next_chunk(pool, epoch, self, &chunk)) {
    if (part.stopped() || !part.run_chunk(chunk, pool.open)) return;
    if (self == 0 && signal_raised()) return pool.open.load(std::memory_order_relaxed)->stop();
  }
}

// Works on the grid that `seen` announces, unless it has been closed.
void join_grid(Pool& pool, int32_t self, uint64_t seen) {
  Order& order = pool.orders[self];
  Part part{order.kernel.load(std::memory_order_relaxed),
            order.parameters.load(std::memory_order_relaxed),
            order.launch.load(std::memory_order_relaxed),
            order.first.load(std::memory_order_relaxed),
            order.blocks.load(std::memory_order_relaxed),
            order.chunk.load(std::memory_order_relaxed),
            nullptr};
  const int64_t bytes = order.scratch_bytes.load(std::memory_order_relaxed);
  Range range = Range::unpack(seen);
  const uint32_t epoch = range.epoch;
  do {
    range = Range::unpack(seen);
    if (range.joined || range.epoch != epoch) return;
    range.joined = true;
  } while (!order.range.compare_exchange_weak(seen, range.pack(), std::memory_order_acq_rel));
  const GridScratch scratch(bytes);
  part.scratch = scratch.memory();
  if (scratch.failed()) {
    // Other blocks may wait for one of this worker's, so it must not drop them.
    raise_error("MemoryError", "no memory for a launch");
    pool.open.load(std::memory_order_acquire)->record_failure(part.blocks);
  } else {
    work(pool, part, epoch, self);
  }
  Answer& answer = pool.answers[self];
  answer.finished.store(epoch);
  if (pool.caller_sleeps.load()) wake_all(answer.finished);
}

struct WorkerStart {
  Pool* pool;
  int32_t number;
};

// Waits for a grid that is not `epoch`; returns the range that announces it.
uint64_t wait_for_order(Pool& pool, int32_t self, uint32_t epoch) {
  std::atomic<uint64_t>& range = pool.orders[self].range;
  int spins = 0;
  int open_spins = 0;
  for (int looks = 1;; ++looks) {
    const uint64_t seen = range.load(std::memory_order_acquire);
    if (Range::unpack(seen).epoch != epoch) return seen;
    pause_briefly();
    if (looks % kSpinsPerLook != 0) continue;
    // The caller may bring its next grid as soon as this one is closed.
    const bool is_open = pool.open.load(std::memory_order_relaxed) != nullptr;
    if (is_open ? (open_spins += kSpinsPerLook) < kOpenSpins : (spins += kSpinsPerLook) < kSpins) continue;
    const uint32_t wake = pool.wake.load();
    pool.answers[self].asleep.store(true);
    if (Range::unpack(range.load()).epoch == epoch) sleep_while_equal(pool.wake, wake, nullptr);
    pool.answers[self].asleep.store(false);
    spins = open_spins = 0;
  }
}

void* worker_main(void* argument) {
  const WorkerStart start = *std::unique_ptr<WorkerStart>(static_cast<WorkerStart*>(argument));
  Pool& pool = *start.pool;
  const int32_t self = start.number;
  t_worker = self;
  for (uint32_t epoch = 0;;) {
    const uint64_t seen = wait_for_order(pool, self, epoch);
    epoch = Range::unpack(seen).epoch;
    join_grid(pool, self, seen);
  }
  return nullptr;
}

// Starts workers until there are `count`, or the system refuses.
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
    std::unique_ptr<WorkerStart> start(new (std::nothrow) WorkerStart{&pool, pool.workers.load() + 1});
    pthread_t thread;
    if (start == nullptr || pthread_create(&thread, &attributes, worker_main, start.get()) != 0) break;
    start.release();  // the worker's now
    pool.workers.fetch_add(1);
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Gives each thread its range, in block order; the caller has the first.
void announce(Pool& pool, const Run& run, uint32_t epoch, int32_t threads) {
  const auto chunks = static_cast<uint32_t>(run.chunks());
  for (int32_t self = threads - 1; self >= 0; --self) {
    const auto share_of = [&](int32_t thread) {
      return static_cast<uint32_t>(int64_t{chunks} * thread / threads);
    };
    const Range range{epoch, self == 0, share_of(self), share_of(self + 1)};
    Order& order = pool.orders[self];
    if (self != 0) {
      order.kernel.store(run.grid.kernel, std::memory_order_relaxed);
      order.parameters.store(run.grid.parameters, std::memory_order_relaxed);
      order.launch.store(run.grid.launch, std::memory_order_relaxed);
      order.first.store(run.first, std::memory_order_relaxed);
      order.blocks.store(run.grid.blocks, std::memory_order_relaxed);
      order.chunk.store(run.chunk, std::memory_order_relaxed);
      order.scratch_bytes.store(run.grid.scratch_bytes, std::memory_order_relaxed);
    }
    // Sequentially consistent, like a worker's note that it sleeps: one of the two sees the other.
    order.range.store(range.pack());
  }
}

// Waits until a worker that has joined leaves; the first microseconds without sleeping.
void wait_for_worker(Pool& pool, Answer& answer, uint32_t epoch, Run& run, CpuCall& call) {
  for (int spins = 0; spins < kWaitSpins; ++spins) {
    if (answer.finished.load(std::memory_order_acquire) == epoch) return;
    pause_briefly();
  }
  call.release_gil();
  pool.caller_sleeps.store(true);
  for (uint32_t seen = answer.finished.load(); seen != epoch; seen = answer.finished.load()) {
    sleep_while_equal(answer.finished, seen, &kWaitSlice);
    if (signal_raised()) run.stop();
  }
  pool.caller_sleeps.store(false);
}

// No worker joins from here on; waits for those that have.
void close(Pool& pool, uint32_t epoch, int32_t threads, Run& run, CpuCall& call) {
  for (int32_t self = 1; self < threads; ++self) {
    std::atomic<uint64_t>& word = pool.orders[self].range;
    uint64_t seen = word.load(std::memory_order_acquire);
    for (;;) {
      Range range = Range::unpack(seen);
      if (range.joined) {
        wait_for_worker(pool, pool.answers[self], epoch, run, call);
        break;
      }
      range.joined = true;
      if (word.compare_exchange_weak(seen, range.pack(), std::memory_order_acq_rel)) break;
    }
  }
}

}  // namespace

void Run::record_failure(int64_t block) {
  stop();
  TVMFFIObjectHandle raised = nullptr;
  ffi().error_move_from_raised(&raised);
  while (error_lock_.test_and_set(std::memory_order_acquire)) pause_briefly();
  if (raised != nullptr && block < failed_block_) {
    failed_block_ = block;
    std::swap(error_, raised);
  }
  error_lock_.clear(std::memory_order_release);
  if (raised != nullptr) ffi().object_dec_ref(raised);
}

int32_t Run::finish(const CpuCall& call) {
  if (!stopped()) return 0;
  if (!call.interrupted() && error_ != nullptr) ffi().error_set_raised(error_);
  if (error_ != nullptr) ffi().object_dec_ref(error_);
  error_ = nullptr;
  return call.interrupted() ? raise_error("EnvErrorAlreadySet", "a signal handler has raised") : -1;
}

GridScratch::GridScratch(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const size_t size = scratch_size(bytes);
  own_ = t_scratch.taken;
  if (own_) {
    memory_ = std::aligned_alloc(kScratchAlignment, size);
    return;
  }
  if (size > t_scratch.size) {
    std::free(t_scratch.memory);
    t_scratch.memory = std::aligned_alloc(kScratchAlignment, size);
    t_scratch.size = t_scratch.memory == nullptr ? 0 : size;
  }
  memory_ = t_scratch.memory;
  t_scratch.taken = memory_ != nullptr;
}

GridScratch::~GridScratch() {
  if (memory_ == nullptr) return;
  if (own_) {
    std::free(memory_);
    return;
  }
  t_scratch.taken = false;
  if (!release_ && t_scratch.size <= kMostKeptScratch) return;
  std::free(memory_);
  t_scratch.memory = nullptr;
  t_scratch.size = 0;
}

Pool* the_pool() {
  Pool* pool = g_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return pool;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  if (registered != 0) return nullptr;
  std::unique_ptr<Pool> made(new (std::nothrow) Pool);
  if (made == nullptr) return nullptr;
  const bool is_first = g_pool.compare_exchange_strong(pool, made.get(), std::memory_order_acq_rel);
  return is_first ? made.release() : pool;
}

int32_t worker_count() {
  const Pool* pool = g_pool.load(std::memory_order_acquire);
  return pool == nullptr ? 0 : pool->workers.load();
}

int32_t this_worker() { return t_worker; }

bool begin_sharing(Pool& pool) { return !pool.busy.test_and_set(std::memory_order_acquire); }

void end_sharing(Pool& pool) { pool.busy.clear(std::memory_order_release); }

bool is_hot(const Pool& pool, int32_t threads) {
  if (pool.workers.load(std::memory_order_relaxed) < threads - 1) return false;
  for (int32_t self = 1; self < threads; ++self) {
    if (pool.answers[self].asleep.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

bool is_worth_waking(Pool& pool, double left, int64_t now) {
  if (now - pool.last_small > kSpinNanoseconds) pool.small_nanoseconds = 0;
  pool.small_nanoseconds += left;
  pool.last_small = now + static_cast<int64_t>(left);
  if (pool.small_nanoseconds < kColdNanoseconds) return false;
  pool.small_nanoseconds = 0;
  return true;
}

void share(Pool& pool, Run& run, void* scratch, int32_t threads, CpuCall& call) {
  threads = static_cast<int32_t>(std::min<int64_t>(threads, run.chunks()));
  if (pool.workers.load() < threads - 1) start_workers(pool, threads - 1);
  threads = std::min(threads, pool.workers.load() + 1);
  const uint32_t epoch = pool.epoch = pool.epoch % Range::kMostEpoch + 1;
  pool.open.store(&run, std::memory_order_relaxed);
  pool.threads.store(threads, std::memory_order_relaxed);
  announce(pool, run, epoch, threads);
  bool asleep = false;
  for (int32_t self = 1; self < threads; ++self) asleep |= pool.answers[self].asleep.load();
  if (asleep) {
    pool.wake.fetch_add(1);
    wake_all(pool.wake);
  }
  const CpuGrid& grid = run.grid;
  work(pool, {grid.kernel, grid.parameters, grid.launch, run.first, grid.blocks, run.chunk, scratch}, epoch,
       0);
  close(pool, epoch, threads, run, call);
  pool.open.store(nullptr, std::memory_order_relaxed);
}

}  // namespace weft
