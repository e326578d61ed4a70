// SPDX-License-Identifier: Apache-2.0
//
// Copies of boxes between tensors and shared memory, which complete as late as is legal: when a thread waits.
#ifndef WEFT_CPU_COPIES_H_
#define WEFT_CPU_COPIES_H_

#include <weft/cpu_cooperative.h>
#include <weft/tensor_map.h>

#include <cstdint>
#include <vector>

namespace weft {

// The copies of one block that are under way.
class Copies {
 public:
  // Copies whose block is done are forgotten: no thread is left to see them.
  void clear() {
    pending_.clear();
    messages_.clear();
  }

  void add_load(const weft_cpu_tensor_map& map, const weft_tma_tile* tile, const int32_t* indices,
                char* shared, uint64_t* word);
  void add_store(const weft_cpu_tensor_map& map, const weft_tma_tile* tile, const int32_t* indices,
                 char* shared, int32_t thread);

  // A store of at most 16 bytes into this block's memory, by a thread of its cluster.
  void add_message(char* to, uint64_t* word, const char* data, int32_t bytes);

  // Completes the loads and messages that report to a barrier. Returns 0, or as mbarrier_complete_bytes.
  int32_t complete_loads(uint64_t* word);

  // Completes all but the newest stores of a thread.
  void complete_stores(int32_t thread, int32_t newest);

  bool has_stores() const;
  bool has_messages() const { return !messages_.empty(); }

 private:
  struct Copy {
    weft_cpu_tensor_map map;
    const weft_tma_tile* tile;
    int32_t indices[WEFT_TENSOR_MAP_RANK];
    char* shared;
    uint64_t* word;  // of a load; NULL for a store
    int32_t thread;  // of a store
  };

  struct Message {
    char* to;
    uint64_t* word;
    int32_t bytes;
    char data[16];
  };

  static void run(const Copy& copy);
  int32_t deliver_messages(uint64_t* word);  // those that the current phase counts

  std::vector<Copy> pending_;  // oldest first, as messages_
  std::vector<Message> messages_;
};

// The rows of the runtime table that queue a copy of the running block, and wait for a thread's stores.
void tma_load(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,
              void* shared, void* word);
void tma_store(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile,
               const int32_t* indices, void* shared, int32_t thread);
void tma_wait(const weft_cpu_block* block, int32_t thread, int32_t pending);

}  // namespace weft

#endif  // WEFT_CPU_COPIES_H_
