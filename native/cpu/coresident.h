// SPDX-License-Identifier: Apache-2.0
//
// Blocks that are alive at once because their threads may wait for each other: a cluster's, or the whole
// grid's.
//
// They take turns, each until none of its threads can run. If the kernel accesses the memory of other blocks,
// that of a block which has not begun or has exited is filled with a pattern, so that writes there are
// noticed.
#ifndef WEFT_CPU_CORESIDENT_H_
#define WEFT_CPU_CORESIDENT_H_

#include <weft/cpu_cooperative.h>
#include <weft/runtime_table.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "cpu/deadlock.h"
#include "cpu/race_detector.h"
#include "runtime/launch/launch_limits.h"

namespace weft {

inline int32_t cluster_size(const weft_cooperative_kernel& kernel) {
  return kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2];
}

// The result of a pass over a block's threads. kHeld: some wait for another launch, and no thread can run.
enum class Pass { kAgain, kWaits, kExited, kFailed, kHeld };

// `Block` is the scheduler's. They live in the launch's scratch; this constructs and destroys them.
template <typename Block>
class CoresidentBlocks {
 public:
  // `bytes` from one block's memory to the next in `scratch`, where the blocks themselves follow: they are
  // small and hold only addresses.
  CoresidentBlocks(const weft_cooperative_kernel& kernel, weft_cpu_launch* launch, int64_t blocks,
                   char* scratch, int64_t bytes, int64_t stride)
      : kernel_(kernel),
        launch_(launch),
        blocks_(blocks),
        size_(cluster_size(kernel)),
        scratch_(scratch),
        bytes_(bytes),
        all_(reinterpret_cast<Block*>(scratch + blocks * bytes)) {
    for (int64_t block = 0; block < blocks; ++block) {
      new (&all_[block]) Block(kernel, launch, stride, scratch + block * bytes);
      all_[block].join(bytes);
      fill(block);
    }
  }

  ~CoresidentBlocks() {
    std::for_each(all_, all_ + blocks_, [](Block& block) { block.~Block(); });
  }
  CoresidentBlocks(const CoresidentBlocks&) = delete;
  CoresidentBlocks& operator=(const CoresidentBlocks&) = delete;

  // Runs all blocks, numbered from `first` on; 0, or 1 with the error set.
  int32_t run(const void* parameters, int64_t first) {
    Pass pass = start(parameters, first);
    while (pass == Pass::kAgain) pass = step();
    return pass == Pass::kExited ? 0 : 1;
  }

  // Runs the threads of all blocks to their first wait: kAgain or kFailed.
  Pass start(const void* parameters, int64_t first) {
    budget_ = all_[0].budget();
    for (int64_t block = 0; block < blocks_; ++block) all_[block].place(first + block);
    if (is_instrumented()) detector_of(launch_)->share(numbers(0, blocks_), scratch_, bytes_);
    for (int64_t block = 0; block < blocks_; ++block) {
      Block& own = all_[block];
      if (!is_filled(block)) {
        raise_overwritten(own.described(), nullptr);
        return Pass::kFailed;
      }
      own.set_budget(budget_);
      own.start(parameters);
      budget_ = own.budget();
    }
    return Pass::kAgain;
  }

  // One turn of each block: kAgain, kExited, kFailed or kHeld.
  Pass step() {
    moved_ = false;
    int64_t exited = 0;
    for (int64_t cluster = 0; cluster < blocks_; cluster += size_) {
      for (int64_t block = cluster; block < cluster + size_; ++block) {
        all_[block].set_budget(budget_);
        if (!run_block(cluster, block)) return Pass::kFailed;
        budget_ = all_[block].budget();
        exited += all_[block].exited() ? 1 : 0;
      }
      open_cluster_barrier(cluster);
    }
    if (exited == blocks_) return late_message() == 0 ? Pass::kExited : Pass::kFailed;
    if (moved_ || open_grid_barrier()) return Pass::kAgain;
    if (std::any_of(all_, all_ + blocks_, [](const Block& block) { return block.is_held(); }))
      return Pass::kHeld;
    deadlock();
    return Pass::kFailed;
  }

  // Continues the threads of all blocks that wait in this state.
  void open(weft_thread_state state) {
    for (int64_t block = 0; block < blocks_; ++block) all_[block].open(state);
  }

  // The first block that has not exited.
  BlockState described() const {
    const Block* begin = all_;
    const Block* end = all_ + blocks_;
    const Block* waits = std::find_if(begin, end, [](const Block& block) { return !block.exited(); });
    return (waits == end ? begin : waits)->described();
  }

 private:
  static constexpr unsigned char kPattern = 0xFF;  // NaN as a float, -1 as an integer

  char* shared(int64_t block) const { return scratch_ + block * bytes_; }

  void fill(int64_t block) {
    if (kernel_.maps_shared != 0) std::memset(shared(block), kPattern, launch_->shared_memory_bytes);
  }

  bool is_filled(int64_t block) const {
    if (kernel_.maps_shared == 0) return true;
    const auto* memory = reinterpret_cast<const unsigned char*>(shared(block));
    return std::all_of(memory, memory + launch_->shared_memory_bytes,
                       [](auto byte) { return byte == kPattern; });
  }

  // Runs a block until its threads wait or have exited; false with the error set.
  bool run_block(int64_t cluster, int64_t block) {
    Block& own = all_[block];
    if (own.exited()) return true;
    const Pass pass = own.run();
    if (pass == Pass::kFailed) return false;
    if (!own.take_moved() && pass != Pass::kAgain) return true;
    moved_ = true;
    for (int64_t other = cluster; other < cluster + size_; ++other) {
      if (other == block || !all_[other].exited() || is_filled(other)) continue;
      const BlockState writer = own.described();
      raise_overwritten(all_[other].described(), &writer);
      return false;
    }
    if (!own.exited()) return true;
    fill(block);
    return !is_instrumented() || detector_of(launch_)->ended(own.described().block);
  }

  // Whether the sanitizer looks at what blocks do to each other's memory.
  bool is_instrumented() const { return launch_->detector != nullptr && kernel_.maps_shared != 0; }

  // Of blocks from `first` on, in the grid.
  std::vector<int64_t> numbers(int64_t first, int64_t count) const {
    std::vector<int64_t> found;
    for (int64_t block = first; block < first + count; ++block)
      found.push_back(all_[block].described().block);
    return found;
  }

  // Opens a cluster's barrier if all its threads that have not exited are there.
  void open_cluster_barrier(int64_t cluster) {
    int32_t site = -1;
    for (int64_t block = cluster; block < cluster + size_; ++block) {
      if (all_[block].exited()) continue;
      const int32_t own = all_[block].cluster_site();
      if (own < 0 || (site >= 0 && own != site)) return;
      site = own;
    }
    if (site < 0) return;
    moved_ = true;
    meet(cluster, size_);
    for (int64_t block = cluster; block < cluster + size_; ++block) all_[block].open(WEFT_THREAD_CLUSTER);
  }

  bool open_grid_barrier() {
    for (int64_t block = 0; block < blocks_; ++block) {
      if (!all_[block].is_at_grid()) return false;
    }
    meet(0, blocks_);
    for (int64_t block = 0; block < blocks_; ++block) all_[block].open(WEFT_THREAD_GRID);
    return true;
  }

  // The threads of blocks from `first` on have met at a barrier.
  void meet(int64_t first, int64_t count) {
    if (launch_->detector == nullptr) return;
    detector_of(launch_)->meet_blocks(numbers(first, count).data(), static_cast<int32_t>(count));
  }

  // 0, or 1 with the error set: a message that was sent to a block which had exited.
  int32_t late_message() {
    const auto is_late = [](const Block& block) { return block.undelivered() != nullptr; };
    Block* late = std::find_if(all_, all_ + blocks_, is_late);
    return late == all_ + blocks_ || late->deadlock(late->undelivered()) != Pass::kFailed ? 0 : 1;
  }

  // No thread can run: describes the first block at a grid barrier, or the first cluster that has not exited.
  int32_t deadlock() {
    BlockState blocks[kMostClusterBlocks];
    int64_t waits = -1;
    for (int64_t block = blocks_ - 1; block >= 0; --block) {
      if (all_[block].at_grid() != 0) {
        blocks[0] = all_[block].described();
        return raise_deadlock(blocks, 1, "a grid barrier waits for threads that have exited");
      }
      if (!all_[block].exited()) waits = block;
    }
    bool at_barriers = true;
    for (int32_t rank = 0; rank < size_; ++rank) {
      const Block& block = all_[waits - waits % size_ + rank];
      blocks[rank] = block.described();
      at_barriers &= block.is_at_cluster();
    }
    return raise_deadlock(blocks, size_,
                          at_barriers ? "threads of a cluster wait at different barriers"
                                      : "threads wait for each other and none can continue");
  }

  const weft_cooperative_kernel& kernel_;
  const weft_cpu_launch* launch_;
  int64_t blocks_;
  int32_t size_;  // of a cluster
  char* scratch_;
  int64_t bytes_;
  Block* all_;
  int32_t budget_ = 0;
  bool moved_ = false;  // in this turn: a thread has run, or a barrier has opened
};

}  // namespace weft

#endif  // WEFT_CPU_CORESIDENT_H_
