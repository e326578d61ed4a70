// SPDX-License-Identifier: Apache-2.0
//
// Which grids are shared: those whose first blocks show that it pays.
#include "cpu/pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <new>
#include <utility>

#include "cpu/interrupt.h"
#include "cpu/unstarted.h"
#include "cpu/workers.h"
#include "runtime/failure.h"

namespace weft {
namespace {

// The first blocks, timed to estimate the others: at most this many, for at most this long.
constexpr int64_t kTrialBlocks = 32;
constexpr int64_t kTrialNanoseconds = 2'000;
// The estimated work left that makes sharing with awake workers worthwhile.
constexpr double kHotNanoseconds = 2'000;
// Work long enough to release the GIL for other Python threads.
constexpr double kReleaseNanoseconds = 1'000'000;
// Chunks of blocks: many per thread, since their times differ, but each long compared with the 10 ns of
// starting one.
constexpr double kChunksPerThread = 32;
constexpr double kLeastChunkNanoseconds = 400;
// Launches between two checks for signals, in a host function that launches small grids in a loop.
constexpr uint32_t kLaunchesPerQuestion = 256;

std::atomic<int32_t> g_threads{0};
std::atomic<int64_t> g_inline_grids{0};
std::atomic<int64_t> g_shared_grids{0};
constexpr int32_t kMultiprocessors = 4;
std::atomic<int32_t> g_multiprocessors{kMultiprocessors};
constexpr int32_t kMaxClusters = 2;
std::atomic<int32_t> g_max_clusters{kMaxClusters};
thread_local uint32_t t_launches = 0;
thread_local Unstarted* t_unstarted = nullptr;

int32_t usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, kMostCpuThreads);
}

int64_t chunk_for(int64_t blocks, int32_t threads, double per_block) {
  const double per_thread = per_block * static_cast<double>(blocks) / threads;
  const auto chunks =
      static_cast<int64_t>(std::clamp(per_thread / kLeastChunkNanoseconds, 1.0, kChunksPerThread));
  return (blocks + threads * chunks - 1) / (threads * chunks);
}

int32_t run_blocks(const CpuGrid& grid, int64_t first, int64_t last, void* scratch) {
  return grid.kernel(grid.parameters, grid.launch, first, last, scratch) == 0 ? 0 : -1;
}

// The blocks after the first ones, before the grid is shared.
class Rest final : public Unstarted {
 public:
  Rest(int64_t next, int64_t last) : next_(next), last_(last) {}

  bool take(int64_t* first, int64_t* last) override {
    if (next_ == last_) return false;
    *first = next_++;
    *last = next_;
    return true;
  }
  int64_t next() const { return next_; }

 private:
  int64_t next_;
  int64_t last_;
};

// A grid of more than one block.
int32_t run_many(const CpuGrid& grid, void* scratch, CpuCall& call) {
  const int64_t most = std::clamp<int64_t>(grid.blocks / 64, 1, kTrialBlocks);
  const int64_t before = read_clock();
  int64_t now = before;
  int64_t trial = 0;
  do {
    const int64_t until = std::clamp<int64_t>(2 * trial, 1, most);
    const Rest rest(until, grid.blocks);
    if (run_blocks(grid, trial, until, scratch) != 0) return -1;
    trial = rest.next();
    now = read_clock();
  } while (trial < most && now - before < kTrialNanoseconds);
  const double per_block = static_cast<double>(now - before) / static_cast<double>(trial);
  const double left = per_block * static_cast<double>(grid.blocks - trial);
  const int32_t threads = cpu_threads();
  if (left >= kReleaseNanoseconds) call.release_gil();
  if (threads > 1 && left >= kHotNanoseconds) {
    Pool* pool = the_pool();
    if (pool != nullptr && begin_sharing(*pool)) {
      const bool worth = is_hot(*pool, threads) || is_worth_waking(*pool, left, now);
      Run run(grid, trial, chunk_for(grid.blocks - trial, threads, per_block));
      if (worth) {
        share(*pool, run, scratch, threads, call);
        g_shared_grids.fetch_add(1, std::memory_order_relaxed);
      }
      end_sharing(*pool);
      if (worth) return run.finish(call);
    }
  }
  g_inline_grids.fetch_add(1, std::memory_order_relaxed);
  return run_blocks(grid, trial, grid.blocks, scratch);
}

}  // namespace

Unstarted::Unstarted() : before_(std::exchange(t_unstarted, this)) {}

Unstarted::~Unstarted() { t_unstarted = before_; }

bool take_unstarted(int64_t* first, int64_t* last) {
  return t_unstarted != nullptr && t_unstarted->take(first, last);
}

int32_t run_grid(const CpuGrid& grid) {
  CpuCall call;
  if (++t_launches % kLaunchesPerQuestion == 0 && this_worker() == 0 && signal_raised()) {
    return raise_error("EnvErrorAlreadySet", "a signal handler has raised");
  }
  GridScratch scratch(grid.scratch_bytes);
  if (scratch.failed()) throw std::bad_alloc();
  if (grid.blocks > 1 && !grid.whole) return run_many(grid, scratch.memory(), call);
  if (grid.whole) scratch.release_at_end();
  g_inline_grids.fetch_add(1, std::memory_order_relaxed);
  return run_blocks(grid, 0, grid.blocks, scratch.memory());
}

void set_cpu_multiprocessors(int32_t count) {
  g_multiprocessors.store(count == 0 ? kMultiprocessors : count, std::memory_order_relaxed);
}

int32_t cpu_multiprocessors() { return g_multiprocessors.load(std::memory_order_relaxed); }

void set_cpu_max_clusters(int32_t count) {
  g_max_clusters.store(count == 0 ? kMaxClusters : count, std::memory_order_relaxed);
}

int32_t cpu_max_clusters() { return g_max_clusters.load(std::memory_order_relaxed); }

void set_cpu_threads(int32_t count) {
  g_threads.store(std::clamp(count, 0, kMostCpuThreads), std::memory_order_relaxed);
}

int32_t cpu_threads() {
  int32_t count = g_threads.load(std::memory_order_relaxed);
  if (count == 0) {
    count = usable_cpus();
    g_threads.store(count, std::memory_order_relaxed);
  }
  return count;
}

PoolCounts pool_counts() { return {g_inline_grids.load(), g_shared_grids.load(), worker_count()}; }

int32_t kernel_poll(weft_cpu_launch* launch) {
  if (__atomic_load_n(&launch->failed, __ATOMIC_RELAXED) != 0) return 1;
  if (this_worker() == 0 && signal_raised()) {
    __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);
    raise_error("EnvErrorAlreadySet", "a signal handler has raised");
    return 1;
  }
  return 0;
}

int32_t worker_number() { return this_worker(); }

int64_t read_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace weft
