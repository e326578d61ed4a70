// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of a block's coroutines, or of a whole grid's if the kernel has grid barriers.
//
// Scratch of one block: the shared memory, then per thread a slot, its large arrays and a frame. Nothing in
// it owns anything; a block itself owns its copies.
#include "cpu/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/collectives.h"
#include "cpu/coresident.h"
#include "cpu/deadlock.h"
#include "cpu/in_order.h"
#include "cpu/launch.h"
#include "cpu/mma.h"
#include "cpu/order.h"
#include "cpu/overlap.h"
#include "cpu/pool.h"
#include "cpu/race_detector.h"
#include "cpu/rendezvous.h"
#include "runtime/failure.h"
#include "runtime/launch/launch_limits.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kBlockAlignment = 1024;  // of shared memory, as swizzled arrays ask for
constexpr int64_t kFrameAlignment = 32;    // as the kernels' llvm.coro.id says
constexpr int32_t kBudget = 1 << 18;       // operations between two checks whether to stop; as in budget.py

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// From one thread's slot to the next: packed, so that a block fits the first cache.
int64_t thread_bytes(const weft_cooperative_kernel& kernel) {
  const auto frame =
      reinterpret_cast<int64_t>(kernel.start(nullptr, nullptr, nullptr, 0, 0, 0, nullptr, nullptr));
  static_assert(sizeof(weft_thread_slot) % kFrameAlignment == 0);
  return static_cast<int64_t>(sizeof(weft_thread_slot)) + kernel.local_bytes +
         ((frame + kFrameAlignment - 1) & -kFrameAlignment);
}

int64_t block_bytes(int64_t stride, int64_t threads, int64_t shared) {
  const int64_t bytes = aligned(shared) + aligned(threads * stride);
  return (bytes + kBlockAlignment - 1) & -kBlockAlignment;
}

void resume(void* frame) {
  using Resume = void (*)(void*);
  (*static_cast<Resume*>(frame))(frame);
}

class Block {
 public:
  Block(const weft_cooperative_kernel& kernel, weft_cpu_launch* launch, int64_t stride, char* memory)
      : kernel_(kernel),
        launch_(launch),
        stride_(stride),
        threads_(launch->block[0] * launch->block[1] * launch->block[2]),
        slots_(memory + aligned(launch->shared_memory_bytes)),
        rendezvous_(kernel, Slots(slots_, stride), threads_, &copies_) {
    if (launch->orders != 0) order_.set(launch_order(), threads_);
    block_.shared = memory;
    block_.copies = &copies_;
    block_.budget = kBudget;
  }

  // It is one of several whose threads may wait for each other; their shared memories are `bytes` apart.
  void join(int64_t bytes) { block_.cluster_bytes = bytes; }

  const char* undelivered() const { return copies_.undelivered(); }

  // Its coordinates: blocks are numbered by cluster, in it by rank.
  void place(int64_t number) {
    int64_t rank = number % cluster_size(kernel_);
    int64_t cluster = number / cluster_size(kernel_);
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t size = kernel_.cluster[axis];
      const int64_t clusters = launch_->grid[axis] / size;
      block_.index[axis] = static_cast<int32_t>(cluster % clusters * size + rank % size);
      cluster /= clusters;
      rank /= size;
    }
    const int64_t row = block_.index[1] + int64_t{launch_->grid[1]} * block_.index[2];
    block_.linear = block_.index[0] + launch_->grid[0] * row;
  }

  // Runs every thread from its start to its first wait.
  void start(const void* parameters) {
    // A test of orders must not find data of the run before.
    if (launch_->orders != 0)
      std::memset(block_.shared, 0xFF, static_cast<size_t>(launch_->shared_memory_bytes));
    copies_.clear();
    rendezvous_.start(detector_of(launch_), block_.linear);
    moved_ = true;
    const auto start = [&](int32_t thread, int32_t x, int32_t y, int32_t z) {
      weft_thread_slot& own = slot(thread);
      own.state = WEFT_THREAD_READY;
      kernel_.start(parameters, launch_, &block_, x, y, z, &own, frame(thread));
      pass_dependency(own);
      failed_ = own.state == WEFT_THREAD_FAILED;
      return !failed_;
    };
    const int32_t* size = launch_->block;
    if (!order_.is_forward()) {
      order_.visit([&](int32_t thread) {
        return start(thread, thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]);
      });
      return;
    }
    int32_t thread = 0;
    for (int32_t z = 0; z < size[2]; ++z) {
      for (int32_t y = 0; y < size[1]; ++y) {
        for (int32_t x = 0; x < size[0]; ++x, ++thread) {
          if (!start(thread, x, y, z)) return;
        }
      }
    }
  }

  // Runs the runnable threads until the block has exited, failed, waits at a grid barrier, or yields.
  Pass run() {
    if (failed_) return Pass::kFailed;
    for (;;) {
      if (must_stop()) return Pass::kFailed;
      const Pass pass = kernel_.uses_collectives != 0 ? warps_pass() : threads_pass();
      if (pass == Pass::kExited && copies_.has_stores()) {
        return deadlock(
            "a block ended with a copy out of shared memory in flight; its thread waits with "
            "weft.tma.wait()");
      }
      if (pass == Pass::kExited && undelivered() != nullptr) return deadlock(undelivered());
      if (pass != Pass::kWaits) return pass;
      if (seen_.exited + seen_.at_grid == threads_ || is_at_cluster()) return Pass::kWaits;
      if (block_.cluster_bytes != 0 && seen_.rendezvous != 0)
        return Pass::kWaits;  // for another block, perhaps
      if (seen_.exited + seen_.at_barrier != threads_) {
        return deadlock(collectives_differ()
                            ? "lanes of one mask call different warp collectives, or with different masks"
                            : "threads wait for each other and none can continue");
      }
      if (seen_.different_barriers) return deadlock("threads wait at different barriers");
      open_barrier();
    }
  }

  // Continues the threads that wait at a grid or cluster barrier.
  void open(weft_thread_state state) {
    for (int32_t thread = 0; thread < threads_; ++thread) {
      if (slot(thread).state == state) slot(thread).state = WEFT_THREAD_READY;
    }
  }

  BlockState described() const { return {&kernel_, launch_, block_.linear, slots_, stride_, threads_}; }

  Pass deadlock(const char* what) {
    const BlockState block = described();
    raise_deadlock(&block, 1, what);
    return Pass::kFailed;
  }

  bool exited() const { return seen_.exited == threads_; }
  bool is_held() const { return seen_.held != 0; }
  int32_t at_grid() const { return seen_.at_grid; }
  bool is_at_grid() const { return seen_.at_grid == threads_; }
  bool is_at_cluster() const { return seen_.exited + seen_.at_cluster == threads_; }
  // The barrier at which all threads wait that have not exited; -1 if there is none.
  int32_t cluster_site() const {
    return is_at_cluster() && !seen_.different_barriers ? seen_.barrier_site : -1;
  }
  // Whether a thread has run since the last call.
  bool take_moved() { return std::exchange(moved_, false); }

  void set_budget(int32_t budget) { block_.budget = budget; }
  int32_t budget() const { return block_.budget; }

 private:
  weft_thread_slot& slot(int32_t thread) const {
    return *reinterpret_cast<weft_thread_slot*>(slots_ + thread * stride_);
  }
  void* frame(int32_t thread) const {
    return slots_ + thread * stride_ + sizeof(weft_thread_slot) + kernel_.local_bytes;
  }

  void run_thread(int32_t thread) {
    moved_ = true;
    resume(frame(thread));
    pass_dependency(slot(thread));
  }

  // A thread at grid_dependency_wait continues at once, unless its launch is held there.
  void pass_dependency(weft_thread_slot& own) const {
    if (WEFT_LIKELY(own.state != WEFT_THREAD_DEPENDENCY)) return;
    const Overlap* overlap = overlap_of(launch_);
    if (overlap == nullptr || !overlap->is_held) own.state = WEFT_THREAD_READY;
  }

  // Where the threads are after a pass.
  struct Seen {
    int32_t at_barrier = 0;
    int32_t at_grid = 0;
    int32_t at_cluster = 0;
    int32_t exited = 0;
    int32_t ready = 0;
    int32_t rendezvous = 0;
    int32_t held = 0;           // for another launch; counted as rendezvous as well
    int32_t barrier_site = -1;  // of the first thread at a block or cluster barrier
    bool different_barriers = false;

    void add(const weft_thread_slot& own) {
      if (own.state == WEFT_THREAD_BARRIER || own.state == WEFT_THREAD_CLUSTER) {
        ++(own.state == WEFT_THREAD_BARRIER ? at_barrier : at_cluster);
        if (barrier_site < 0) barrier_site = own.site;
        different_barriers |= own.site != barrier_site;
      } else if (own.state == WEFT_THREAD_EXITED) {
        ++exited;
      } else if (own.state == WEFT_THREAD_GRID) {
        ++at_grid;
      } else if (own.state == WEFT_THREAD_READY) {
        ++ready;
      } else if (own.state > WEFT_THREAD_FAILED) {
        ++rendezvous;
        held += own.state == WEFT_THREAD_DEPENDENCY ? 1 : 0;
      }
    }
  };

  // Counts the work of a pass; checks periodically whether the launch has failed or a signal has arrived.
  bool must_stop() {
    block_.budget -= threads_ * kernel_.thread_work;
    if (block_.budget >= 0) return false;
    block_.budget = kBudget;
    return kernel_poll(launch_) != 0;
  }

  // Whether a thread can run at the start of a pass: it yielded, or its barrier has opened.
  bool can_run(const weft_thread_slot& own, bool opened) const {
    static_assert(WEFT_THREAD_READY == 0 && WEFT_THREAD_BARRIER == 1);
    return own.state <= (opened ? WEFT_THREAD_BARRIER : WEFT_THREAD_READY);
  }

  // Without collectives: runs every runnable thread once.
  Pass threads_pass() {
    const bool opened = std::exchange(opened_, false);
    Seen seen;
    const auto run = [&](int32_t thread) {
      weft_thread_slot& own = slot(thread);
      if (can_run(own, opened)) run_thread(thread);
      seen.add(own);
      return own.state != WEFT_THREAD_FAILED;
    };
    if (!order_.is_forward()) return order_.visit(run) ? conclude(seen) : Pass::kFailed;
    for (int32_t thread = 0; thread < threads_; ++thread) {
      if (!run(thread)) return Pass::kFailed;
    }
    return conclude(seen);
  }

  // With collectives: each warp continues as long as one of its collectives can be computed.
  Pass warps_pass() {
    const bool opened = std::exchange(opened_, false);
    Seen seen;
    for (int32_t number = 0; number * kWarpSize < threads_; ++number) {
      const int32_t first = kWarpSize * order_.warp(number);
      const int32_t lanes = std::min(threads_ - first, kWarpSize);
      if (!run_warp(first, lanes, opened)) return Pass::kFailed;
      for (int32_t lane = 0; lane < lanes; ++lane) seen.add(slot(first + lane));
    }
    return conclude(seen);
  }

  Pass conclude(const Seen& seen) {
    seen_ = seen;
    if (seen.exited == threads_) return Pass::kExited;
    if (seen.rendezvous != 0) {
      const char* error = nullptr;
      seen_.ready += rendezvous_.open(&error);
      if (error != nullptr) return deadlock(error);
    }
    return seen_.ready != 0 ? Pass::kAgain : Pass::kWaits;
  }

  bool run_warp(int32_t first, int32_t lanes, bool opened) {
    const uint32_t present = lanes == kWarpSize ? ~0U : (1U << lanes) - 1;
    uint32_t runnable = 0;
    uint32_t waiting = 0;
    uint32_t exited = 0;
    for (int32_t lane = 0; lane < lanes; ++lane) {
      const weft_thread_slot& own = slot(first + lane);
      runnable |= uint32_t{can_run(own, opened)} << lane;
      waiting |= uint32_t{own.state == WEFT_THREAD_COLLECTIVE} << lane;
      exited |= uint32_t{own.state == WEFT_THREAD_EXITED} << lane;
    }
    for (;;) {
      waiting &= ~runnable;
      for (uint32_t left = runnable; left != 0;) {
        const int lane = order_.next_lane(left);
        left &= ~(1U << lane);
        const weft_thread_slot& own = slot(first + lane);
        run_thread(first + lane);
        if (own.state == WEFT_THREAD_FAILED) return false;
        waiting |= uint32_t{own.state == WEFT_THREAD_COLLECTIVE} << lane;
        exited |= uint32_t{own.state == WEFT_THREAD_EXITED} << lane;
      }
      // Lanes that yielded run again in the next pass, after the other warps.
      runnable = 0;
      for (uint32_t left = waiting; left != 0;) {
        const int lane = __builtin_ctz(left);
        if (!check_mask(first, lane, exited)) return false;
        // As on a GPU, lanes that have returned are ignored, like lanes that the block does not have.
        const uint32_t mask = slot(first + lane).mask & present & ~exited;
        if (mask != ~0U && kernel_.sites[slot(first + lane).site].operation == WEFT_COOPERATIVE_mma) {
          deadlock("a warp multiplies without some of its 32 lanes");
          return false;
        }
        // A lane of the mask that waits elsewhere, under another mask, may still arrive here.
        const uint32_t arrived = waiting_with(first, lane, mask & waiting, present & ~exited);
        left &= ~arrived;
        if (arrived != mask) continue;
        const Warp warp(slots_ + first * stride_, stride_);
        const weft_cooperative_site& site = kernel_.sites[slot(first + lane).site];
        if (site.operation == WEFT_COOPERATIVE_mma && !has_ordered_metadata(warp)) {
          deadlock("a warp multiplies with metadata that gives no ascending places in a chunk of a row");
          return false;
        }
        compute_collective(warp, mask, site);
        if (launch_->detector != nullptr && site.operation == WEFT_COOPERATIVE_warp_barrier) {
          detector_of(launch_)->meet_lanes(block_.linear, first, mask | exited);
        }
        runnable |= mask;
      }
      if (runnable == 0) return true;
    }
  }

  // The lanes among `lanes` that wait at the same collective as `lane`, under the same mask.
  uint32_t waiting_with(int32_t first, int lane, uint32_t lanes, uint32_t present) const {
    const weft_thread_slot& one = slot(first + lane);
    uint32_t found = 0;
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
      const int index = __builtin_ctz(left);
      const weft_thread_slot& other = slot(first + index);
      const bool same = ((other.mask ^ one.mask) & present) == 0 &&
                        (other.site == one.site || alike(kernel_.sites[other.site], kernel_.sites[one.site]));
      found |= uint32_t{same} << index;
    }
    return found;
  }

  // When no thread can run: whether some lanes wait for lanes that all wait in other collectives.
  bool collectives_differ() const {
    for (int32_t first = 0; first < threads_; first += kWarpSize) {
      const int32_t lanes = std::min(threads_ - first, kWarpSize);
      uint32_t present = 0;
      uint32_t waiting = 0;
      for (int32_t lane = 0; lane < lanes; ++lane) {
        present |= uint32_t{slot(first + lane).state != WEFT_THREAD_EXITED} << lane;
        waiting |= uint32_t{slot(first + lane).state == WEFT_THREAD_COLLECTIVE} << lane;
      }
      for (uint32_t left = waiting; left != 0; left &= left - 1) {
        if ((slot(first + __builtin_ctz(left)).mask & present & ~waiting) == 0) return true;
      }
    }
    return false;
  }

  bool check_mask(int32_t first, int lane, uint32_t exited) {
    const weft_thread_slot& own = slot(first + lane);
    if ((own.mask >> lane & 1) == 0) {
      deadlock("a lane calls a warp collective with a mask that it is not in");
      return false;
    }
    // On a GPU, reading a returned lane's value in a shuffle is undefined.
    if ((own.mask & exited) != 0 && is_shuffle(kernel_.sites[own.site].operation)) {
      deadlock("a shuffle waits for a lane that has exited");
      return false;
    }
    return true;
  }

  static bool alike(const weft_cooperative_site& one, const weft_cooperative_site& other) {
    return one.operation == other.operation && one.width == other.width && one.value_type == other.value_type;
  }

  // Every thread that has not exited is at the same block barrier: the next pass continues them.
  void open_barrier() {
    opened_ = true;
    if (launch_->detector != nullptr) detector_of(launch_)->meet_threads(block_.linear, 0, threads_);
    const int32_t operation = kernel_.sites[seen_.barrier_site].operation;
    if (operation == WEFT_COOPERATIVE_barrier) return;
    int32_t count = 0;
    for_each_at_barrier([&](weft_thread_slot& own) { count += own.value != 0 ? 1 : 0; });
    auto result = static_cast<uint64_t>(count);
    if (operation == WEFT_COOPERATIVE_barrier_and) result = count == seen_.at_barrier ? 1 : 0;
    if (operation == WEFT_COOPERATIVE_barrier_or) result = count != 0 ? 1 : 0;
    for_each_at_barrier([&](weft_thread_slot& own) { own.result = result; });
  }

  template <typename Visit>
  void for_each_at_barrier(Visit visit) {
    for (int32_t thread = 0; thread < threads_; ++thread) {
      if (slot(thread).state == WEFT_THREAD_BARRIER) visit(slot(thread));
    }
  }

  const weft_cooperative_kernel& kernel_;
  weft_cpu_launch* launch_;
  int64_t stride_;
  int32_t threads_;
  char* slots_;
  Copies copies_;
  Rendezvous rendezvous_;
  weft_cpu_block block_{};
  Seen seen_;
  bool opened_ = false;  // the block barrier, for the next pass
  bool failed_ = false;
  bool moved_ = false;  // see take_moved
  ThreadOrder order_;
};

// From a block to that of its cluster in whose shared memory an address is, in blocks.
int64_t distance(const weft_cpu_block* block, const void* place) {
  const int64_t bytes = block->cluster_bytes;
  if (bytes == 0) return 0;
  const int64_t offset = static_cast<const char*>(place) - static_cast<const char*>(block->shared);
  return (offset >= 0 ? offset : offset - bytes + 1) / bytes;
}

// What all blocks of a call share.
struct Call {
  const weft_cooperative_kernel& kernel;
  const void* parameters;
  weft_cpu_launch* launch;
  int64_t stride;  // bytes of a thread
  int64_t bytes;   // and of a block
};

// A block in memory that it borrows, or a cluster: what begins and ends at once.
class OneBlock {
 public:
  static int64_t memory_bytes(const Call& call) { return call.bytes; }

  OneBlock(const Call& call, char* memory)
      : block_(call.kernel, call.launch, call.stride, memory), parameters_(call.parameters) {}

  Pass start(int64_t number) {
    block_.place(number);
    block_.start(parameters_);
    return block_.run();
  }
  Pass step() { return block_.run(); }
  BlockState described() const { return block_.described(); }

 private:
  Block block_;
  const void* parameters_;
};

class Cluster {
 public:
  static int64_t memory_bytes(const Call& call) {
    return cluster_size(call.kernel) * (call.bytes + aligned(sizeof(Block)));
  }

  Cluster(const Call& call, char* memory) : call_(call), memory_(memory) {}

  Pass start(int64_t number) {
    const int32_t size = cluster_size(call_.kernel);
    blocks_.emplace(call_.kernel, call_.launch, size, memory_, call_.bytes, call_.stride);
    return blocks_->start(call_.parameters, number * size);
  }
  Pass step() { return blocks_->step(); }
  BlockState described() const { return blocks_->described(); }

 private:
  const Call& call_;
  char* memory_;
  std::optional<CoresidentBlocks<Block>> blocks_;
};

class HeldGrid final : public HeldBlocks {
 public:
  HeldGrid(const Call& call, int64_t blocks, OwnedMemory memory)
      : memory_(std::move(memory)),
        kernel_(call.kernel),
        blocks_(kernel_, call.launch, blocks, memory_.get(), call.bytes, call.stride) {}

  int32_t begin(const void* parameters) {
    pass_ = blocks_.start(parameters, 0);
    return advance();
  }
  int32_t finish() override {
    if (pass_ == Pass::kExited) return 0;
    blocks_.open(WEFT_THREAD_DEPENDENCY);
    pass_ = Pass::kAgain;
    return advance();
  }

 private:
  int32_t advance() {
    while (pass_ == Pass::kAgain) pass_ = blocks_.step();
    return pass_ == Pass::kFailed ? 1 : 0;
  }

  OwnedMemory memory_;
  const weft_cooperative_kernel& kernel_;
  CoresidentBlocks<Block> blocks_;
  Pass pass_ = Pass::kAgain;
};

int32_t begin_held(const Call& call, int64_t blocks) {
  OwnedMemory memory = allocate_aligned(blocks * (call.bytes + aligned(sizeof(Block))), kBlockAlignment);
  if (memory == nullptr) {
    raise_error("MemoryError", "no memory for a launch that overlaps with the one before");
    return 1;
  }
  auto grid = std::make_unique<HeldGrid>(call, blocks, std::move(memory));
  HeldGrid& begun = *grid;
  overlap_of(call.launch)->blocks = std::move(grid);
  return begun.begin(call.parameters);
}

bool runs_whole(const weft_cooperative_kernel& kernel, const int64_t* grid) {
  return kernel.coresident == 1 || (kernel.coresident == 2 && are_few(grid[0], grid[1], grid[2]));
}

}  // namespace

int64_t cooperative_scratch_bytes(const weft_cooperative_kernel* kernel, const weft_launch* launch) {
  // A launch beyond the limits is refused later, with an explanation; here it must just not overflow.
  for (int axis = 0; axis < 3; ++axis) {
    if (launch->block[axis] < 1 || launch->block[axis] > kMostThreads) return 0;
    if (launch->grid[axis] < 0 || launch->grid[axis] > INT32_MAX) return 0;
  }
  if (launch->shared_memory_bytes < 0 || launch->shared_memory_bytes > INT32_MAX) return 0;
  const int64_t stride = thread_bytes(*kernel);
  const int64_t threads = launch->block[0] * launch->block[1] * launch->block[2];
  const int64_t bytes = block_bytes(stride, threads, launch->shared_memory_bytes);
  const bool whole = runs_whole(*kernel, launch->grid);
  int64_t blocks = whole ? launch->grid[0] : cluster_size(*kernel);
  if (!whole && blocks == 1) return bytes;
  int64_t all = 0;
  const bool overflows = __builtin_mul_overflow(blocks, whole ? launch->grid[1] : 1, &blocks) ||
                         __builtin_mul_overflow(blocks, whole ? launch->grid[2] : 1, &blocks) ||
                         __builtin_mul_overflow(blocks, bytes + aligned(sizeof(Block)), &all);
  return overflows ? INT64_MAX - kAlignment : all;
}

int32_t run_cooperative(const weft_cooperative_kernel* kernel, const void* parameters,
                        weft_cpu_launch* launch, int64_t first, int64_t last, void* scratch) {
  const int64_t stride = thread_bytes(*kernel);
  const int64_t threads = int64_t{launch->block[0]} * launch->block[1] * launch->block[2];
  const int64_t bytes = block_bytes(stride, threads, launch->shared_memory_bytes);
  auto* memory = static_cast<char*>(scratch);
  if (launch->overlap != nullptr) return begin_held({*kernel, parameters, launch, stride, bytes}, last);
  const int64_t grid[] = {launch->grid[0], launch->grid[1], launch->grid[2]};
  if (runs_whole(*kernel, grid)) {
    return CoresidentBlocks<Block>(*kernel, launch, last, memory, bytes, stride).run(parameters, 0);
  }
  const Call call{*kernel, parameters, launch, stride, bytes};
  if (cluster_size(*kernel) > 1) return InOrder<Call, Cluster>(call, first, last, memory).run();
  return InOrder<Call, OneBlock>(call, first, last, memory).run();
}

namespace {

// Blocks that are alive at once follow each other, and so do their copies.
Copies* copies_at(const weft_cpu_block* block, const void* place) {
  char* copies = static_cast<char*>(block->copies) + distance(block, place) * int64_t{sizeof(Block)};
  return reinterpret_cast<Copies*>(copies);
}

}  // namespace

void st_async(const weft_cpu_block* block, void* to, void* word, const void* data, int32_t bytes) {
  copies_at(block, word)
      ->add_message(static_cast<char*>(to), static_cast<uint64_t*>(word), static_cast<const char*>(data),
                    bytes);
}

void tma_send(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,
              void* shared, void* word) {
  add_sent_load(copies_at(block, word), map, tile, indices, shared, word);
}

}  // namespace weft
