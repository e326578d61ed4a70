// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of a block's coroutines, and of a grid's where the kernel has grid barriers.
//
// Scratch of one block: the shared memory, then per thread a slot and a frame. Nothing in it owns anything,
// so a block that is given up needs no cleaning.
#include "cpu/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "cpu/collectives.h"
#include "cpu/pool.h"
#include "cpu/stuck.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int kRoundsPerPoll = 64;
constexpr int64_t kMostThreads = 1024;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

int64_t frame_bytes(const weft_cooperative_kernel& kernel) {
  return aligned(
      reinterpret_cast<int64_t>(kernel.start(nullptr, nullptr, nullptr, 0, 0, 0, nullptr, nullptr)));
}

int64_t block_bytes(int64_t stride, int64_t threads, int64_t shared) {
  return aligned(shared) + threads * stride;
}

void resume(void* frame) {
  using Resume = void (*)(void*);
  (*static_cast<Resume*>(frame))(frame);
}

// What a pass over a block's threads has come to.
enum class Pass { kAgain, kWaits, kExited, kFailed };

class Block {
 public:
  Block(const weft_cooperative_kernel& kernel, weft_cpu_launch* launch, int64_t stride, char* memory)
      : kernel_(kernel),
        launch_(launch),
        stride_(stride),
        threads_(launch->block[0] * launch->block[1] * launch->block[2]),
        slots_(memory + aligned(launch->shared_memory_bytes)) {
    block_.shared = memory;
  }

  // Every thread runs from its beginning to its first wait.
  void start(const void* parameters, int64_t linear) {
    const int32_t* grid = launch_->grid;
    block_.linear = linear;
    block_.index[0] = static_cast<int32_t>(linear % grid[0]);
    block_.index[1] = static_cast<int32_t>(linear / grid[0] % grid[1]);
    block_.index[2] = static_cast<int32_t>(linear / grid[0] / grid[1]);
    int32_t thread = 0;
    for (int32_t z = 0; z < launch_->block[2]; ++z) {
      for (int32_t y = 0; y < launch_->block[1]; ++y) {
        for (int32_t x = 0; x < launch_->block[0]; ++x, ++thread) {
          weft_thread_slot& own = slot(thread);
          own.state = WEFT_THREAD_READY;
          kernel_.start(parameters, launch_, &block_, x, y, z, &own, frame(thread));
          if (own.state == WEFT_THREAD_FAILED) {
            failed_ = true;
            return;
          }
        }
      }
    }
  }

  // Runs whoever can run until the block has exited, failed, waits at a grid barrier, or gives way.
  Pass run() {
    if (failed_) return Pass::kFailed;
    for (;;) {
      const Pass pass = kernel_.uses_collectives != 0 ? warps_pass() : threads_pass();
      if (pass != Pass::kWaits) return pass;
      if (exited_ + at_grid_ == threads_) return Pass::kWaits;
      if (exited_ + at_barrier_ != threads_) return stuck("threads wait for each other and none can go on");
      if (!open_barrier()) return Pass::kFailed;
    }
  }

  void open_grid_barrier() {
    for (int32_t thread = 0; thread < threads_; ++thread) {
      if (slot(thread).state == WEFT_THREAD_GRID) slot(thread).state = WEFT_THREAD_READY;
    }
  }

  Pass stuck(const char* what) {
    raise_stuck({&kernel_, launch_, block_.linear, slots_, stride_, threads_}, what);
    return Pass::kFailed;
  }

  int32_t at_grid() const { return at_grid_; }

 private:
  weft_thread_slot& slot(int32_t thread) const {
    return *reinterpret_cast<weft_thread_slot*>(slots_ + thread * stride_);
  }
  void* frame(int32_t thread) const { return slots_ + thread * stride_ + sizeof(weft_thread_slot); }

  // Without collectives: every thread that can run does, once.
  Pass threads_pass() {
    int32_t counts[WEFT_THREAD_FAILED + 1] = {};
    for (int32_t thread = 0; thread < threads_; ++thread) {
      weft_thread_slot& own = slot(thread);
      if (own.state == WEFT_THREAD_READY) resume(frame(thread));
      ++counts[own.state];
      if (own.state == WEFT_THREAD_FAILED) return Pass::kFailed;
    }
    return conclude(counts);
  }

  // With collectives: each warp goes on as long as one of its collectives can be computed.
  Pass warps_pass() {
    int32_t counts[WEFT_THREAD_FAILED + 1] = {};
    for (int32_t first = 0; first < threads_; first += kWarpSize) {
      const int32_t lanes = std::min(threads_ - first, kWarpSize);
      if (!run_warp(first, lanes)) return Pass::kFailed;
      for (int32_t lane = 0; lane < lanes; ++lane) ++counts[slot(first + lane).state];
    }
    return conclude(counts);
  }

  Pass conclude(const int32_t* counts) {
    at_barrier_ = counts[WEFT_THREAD_BARRIER];
    at_grid_ = counts[WEFT_THREAD_GRID];
    exited_ = counts[WEFT_THREAD_EXITED];
    if (exited_ == threads_) return Pass::kExited;
    return counts[WEFT_THREAD_READY] != 0 ? Pass::kAgain : Pass::kWaits;
  }

  bool run_warp(int32_t first, int32_t lanes) {
    const uint32_t present = lanes == kWarpSize ? ~0U : (1U << lanes) - 1;
    uint32_t runnable = present;
    for (;;) {
      uint32_t waiting = 0;
      uint32_t exited = 0;
      for (int32_t lane = 0; lane < lanes; ++lane) {
        weft_thread_slot& own = slot(first + lane);
        if (own.state == WEFT_THREAD_READY && (runnable >> lane & 1) != 0) resume(frame(first + lane));
        waiting |= uint32_t{own.state == WEFT_THREAD_COLLECTIVE} << lane;
        exited |= uint32_t{own.state == WEFT_THREAD_EXITED} << lane;
        if (own.state == WEFT_THREAD_FAILED) return false;
      }
      // Lanes that gave way run again in the next pass, after the other warps.
      runnable = 0;
      for (uint32_t left = waiting; left != 0;) {
        const int lane = __builtin_ctz(left);
        const uint32_t mask = slot(first + lane).mask & present;
        if (!check_mask(lane, mask, exited)) return false;
        left &= ~(mask | 1U << lane);
        if ((mask & waiting) != mask) continue;
        if (!compute(first, mask)) return false;
        runnable |= mask;
      }
      if (runnable == 0) return true;
    }
  }

  bool check_mask(int lane, uint32_t mask, uint32_t exited) {
    if ((mask >> lane & 1) == 0) {
      stuck("a lane calls a warp collective with a mask that it is not in");
      return false;
    }
    if ((mask & exited) != 0) {
      stuck("a warp collective waits for a lane that has exited");
      return false;
    }
    return true;
  }

  // All lanes of `mask` wait at a collective; it must be the same one.
  bool compute(int32_t first, uint32_t mask) {
    const Warp warp(slots_ + first * stride_, stride_);
    const weft_thread_slot& lowest = warp[__builtin_ctz(mask)];
    const weft_cooperative_site& site = kernel_.sites[lowest.site];
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      const weft_thread_slot& own = warp[__builtin_ctz(left)];
      const weft_cooperative_site& other = kernel_.sites[own.site];
      if (own.mask != lowest.mask || other.operation != site.operation || other.width != site.width ||
          other.value_type != site.value_type) {
        stuck("lanes of one mask call different warp collectives, or with different masks");
        return false;
      }
    }
    compute_collective(warp, mask, site);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      warp[__builtin_ctz(left)].state = WEFT_THREAD_READY;
    }
    return true;
  }

  // Every thread that has not exited is at a block barrier; it must be one and the same.
  bool open_barrier() {
    const weft_cooperative_site* site = nullptr;
    int32_t index = -1;
    int32_t count = 0;
    for (int32_t thread = 0; thread < threads_; ++thread) {
      const weft_thread_slot& own = slot(thread);
      if (own.state != WEFT_THREAD_BARRIER) continue;
      if (site == nullptr) {
        index = own.site;
        site = &kernel_.sites[index];
      } else if (own.site != index) {
        stuck("threads wait at different barriers");
        return false;
      }
      count += own.value != 0 ? 1 : 0;
    }
    uint64_t result = static_cast<uint64_t>(count);
    if (site->operation == WEFT_COOPERATIVE_barrier_and) result = count == at_barrier_ ? 1 : 0;
    if (site->operation == WEFT_COOPERATIVE_barrier_or) result = count != 0 ? 1 : 0;
    const bool answers = site->operation != WEFT_COOPERATIVE_barrier;
    for (int32_t thread = 0; thread < threads_; ++thread) {
      weft_thread_slot& own = slot(thread);
      if (own.state != WEFT_THREAD_BARRIER) continue;
      own.state = WEFT_THREAD_READY;
      if (answers) own.result = result;
    }
    return true;
  }

  const weft_cooperative_kernel& kernel_;
  weft_cpu_launch* launch_;
  int64_t stride_;
  int32_t threads_;
  char* slots_;
  weft_cpu_block block_{};
  int32_t at_barrier_ = 0;
  int32_t at_grid_ = 0;
  int32_t exited_ = 0;
  bool failed_ = false;
};

// One block after the other. A block that gives way runs again at once: those before it are done, and those
// after it belong to other threads of the pool, or come later.
int32_t run_blocks(const weft_cooperative_kernel& kernel, const void* parameters, weft_cpu_launch* launch,
                   int64_t first, int64_t last, char* scratch, int64_t stride) {
  Block block(kernel, launch, stride, scratch);
  for (int64_t linear = first; linear < last; ++linear) {
    block.start(parameters, linear);
    Pass pass = block.run();
    for (int rounds = 1; pass == Pass::kAgain; ++rounds) {
      if (rounds % kRoundsPerPoll == 0 && kernel_poll(launch) != 0) return 1;
      pass = block.run();
    }
    if (pass != Pass::kExited) return 1;
  }
  return 0;
}

// All blocks of the grid in turns, each until it waits at a grid barrier.
int32_t run_grid_together(const weft_cooperative_kernel& kernel, const void* parameters,
                          weft_cpu_launch* launch, int64_t blocks, char* scratch, int64_t stride) {
  const int64_t threads = int64_t{launch->block[0]} * launch->block[1] * launch->block[2];
  const int64_t bytes = block_bytes(stride, threads, launch->shared_memory_bytes);
  // Blocks are small and hold only addresses, so they live in the scratch as well, behind the blocks' memory.
  auto* all = reinterpret_cast<Block*>(scratch + blocks * bytes);
  for (int64_t linear = 0; linear < blocks; ++linear) {
    new (&all[linear]) Block(kernel, launch, stride, scratch + linear * bytes);
    all[linear].start(parameters, linear);
  }
  for (int rounds = 1;; ++rounds) {
    int64_t exited = 0;
    int64_t waiting = 0;
    int64_t partly = -1;  // a block of which some threads have exited and others wait
    for (int64_t linear = 0; linear < blocks; ++linear) {
      const Pass pass = all[linear].run();
      if (pass == Pass::kFailed) return 1;
      exited += pass == Pass::kExited ? 1 : 0;
      waiting += pass == Pass::kWaits ? 1 : 0;
      if (pass == Pass::kWaits && all[linear].at_grid() != threads) partly = linear;
    }
    if (exited == blocks) return 0;
    if (waiting == blocks && partly < 0) {
      for (int64_t linear = 0; linear < blocks; ++linear) all[linear].open_grid_barrier();
    } else if (waiting + exited == blocks) {
      for (int64_t linear = 0; linear < blocks; ++linear) {
        if (all[linear].at_grid() != 0) {
          all[linear].stuck("a grid barrier waits for threads that have exited");
          return 1;
        }
      }
    }
    if (rounds % kRoundsPerPoll == 0 && kernel_poll(launch) != 0) return 1;
  }
}

}  // namespace

int64_t cooperative_scratch_bytes(const weft_cooperative_kernel* kernel, const weft_launch* launch) {
  // A launch beyond the limits is refused later, with words; here it must only not overflow.
  for (int axis = 0; axis < 3; ++axis) {
    if (launch->block[axis] < 1 || launch->block[axis] > kMostThreads) return 0;
    if (launch->grid[axis] < 0 || launch->grid[axis] > INT32_MAX) return 0;
  }
  if (launch->shared_memory_bytes < 0 || launch->shared_memory_bytes > INT32_MAX) return 0;
  const int64_t stride = static_cast<int64_t>(sizeof(weft_thread_slot)) + frame_bytes(*kernel);
  const int64_t threads = launch->block[0] * launch->block[1] * launch->block[2];
  const int64_t bytes = block_bytes(stride, threads, launch->shared_memory_bytes);
  if (kernel->uses_grid_barriers == 0) return bytes;
  int64_t blocks = launch->grid[0];
  int64_t all = 0;
  const bool overflows = __builtin_mul_overflow(blocks, launch->grid[1], &blocks) ||
                         __builtin_mul_overflow(blocks, launch->grid[2], &blocks) ||
                         __builtin_mul_overflow(blocks, bytes + aligned(sizeof(Block)), &all);
  return overflows ? INT64_MAX - kAlignment : all;
}

int32_t run_cooperative(const weft_cooperative_kernel* kernel, const void* parameters,
                        weft_cpu_launch* launch, int64_t first, int64_t last, void* scratch) {
  const int64_t stride = static_cast<int64_t>(sizeof(weft_thread_slot)) + frame_bytes(*kernel);
  auto* memory = static_cast<char*>(scratch);
  if (kernel->uses_grid_barriers != 0) {
    return run_grid_together(*kernel, parameters, launch, last, memory, stride);
  }
  return run_blocks(*kernel, parameters, launch, first, last, memory, stride);
}

}  // namespace weft
