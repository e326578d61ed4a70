// SPDX-License-Identifier: Apache-2.0
//
// Copies between tensors and shared memory, which complete as late as is legal: when a thread waits.
#ifndef WEFT_CPU_COPIES_H_
#define WEFT_CPU_COPIES_H_

#include <weft/cpu_cooperative.h>
#include <weft/tensor_map.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// A TMA copy: a box of a tensor, or a bulk copy.
struct Copy {
  weft_cpu_tensor_map map;    // of a bulk copy: address, the elements' type, and in sizes[0] the bytes
  const weft_tma_tile* tile;  // NULL for a bulk copy
  int32_t indices[WEFT_TENSOR_MAP_RANK + WEFT_TENSOR_MAP_SPATIAL];  // of im2col, the offsets after them
  char* shared;
  uint64_t* word;   // of a load; NULL for a store
  int32_t thread;   // of a store
  int32_t reduces;  // enum weft_tma_reduction
  bool is_sent;     // a load that another block of the cluster has begun

  int64_t bytes() const;
};

// The copies of one block that are in flight.
class Copies {
 public:
  // Copies whose block is done are forgotten: no thread is left to see them.
  void clear() {
    pending_.clear();
    messages_.clear();
    for (OwnCopies& own : own_) own.clear();
  }

  void add(const Copy& copy) { pending_.push_back(copy); }

  // A store of at most 16 bytes into this block's memory, by a thread of its cluster.
  void add_message(char* to, uint64_t* word, const char* data, int32_t bytes);

  // Completes the loads and messages that report to a barrier. Returns 0, or as mbarrier_complete_bytes.
  int32_t complete_loads(uint64_t* word);

  // Completes all but the newest stores of a thread.
  void complete_stores(int32_t thread, int32_t newest);

  // A copy of single elements by a thread, from `source`, or of zeros if that is NULL.
  void add_elements(int32_t thread, char* to, const char* source, int32_t bytes);
  // The thread's copies of elements since the last call are a group.
  void commit_elements(int32_t thread);
  // Completes all but the newest groups of a thread's copies of elements.
  void complete_elements(int32_t thread, int32_t newest);

  bool has_stores() const;
  // What other blocks have begun to write here, in words; NULL if it is nothing.
  const char* undelivered() const;

 private:
  struct Message {
    char* to;
    uint64_t* word;
    int32_t bytes;
    char data[16];
  };

  struct Elements {
    char* to;
    const char* source;
    int32_t bytes;
  };

  // The copies of elements of one thread, oldest first.
  struct OwnCopies {
    std::vector<Elements> copies;
    std::vector<std::size_t> ends;  // of the groups, among the copies
    void clear() {
      copies.clear();
      ends.clear();
    }
  };

  OwnCopies& own(int32_t thread);

  int32_t deliver_messages(uint64_t* word);  // those that the current phase counts

  std::vector<Copy> pending_;  // oldest first, as messages_
  std::vector<Message> messages_;
  std::vector<OwnCopies> own_;  // by thread
};

// The rows of the runtime table that queue a copy of the running block, and wait for a thread's stores.
void tma_load(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,
              void* shared, void* word);
void tma_store(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile,
               const int32_t* indices, void* shared, int32_t thread);
void tma_reduce(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile,
                const int32_t* indices, void* shared, int32_t thread, int32_t reduction);
void tma_wait(const weft_cpu_block* block, int32_t thread, int32_t pending);

// The same for a bulk copy.
void bulk_load(const weft_cpu_block* block, void* shared, const void* source, int32_t bytes, void* word);
void bulk_store(const weft_cpu_block* block, void* to, void* shared, int32_t bytes, int32_t thread);
void bulk_reduce(const weft_cpu_block* block, void* to, void* shared, int32_t bytes, int32_t thread,
                 int32_t reduction, int32_t data_type);

// A load that any block of the cluster begins, into the block that `copies` belongs to.
void add_sent_load(Copies* copies, const void* map, const weft_tma_tile* tile, const int32_t* indices,
                   void* shared, void* word);

// The rows for copies of elements, of a thread of the running block.
void cp_async_copy(const weft_cpu_block* block, int32_t thread, void* to, const void* source, int32_t bytes);
void cp_async_commit(const weft_cpu_block* block, int32_t thread);
void cp_async_wait(const weft_cpu_block* block, int32_t thread, int32_t pending);

}  // namespace weft

#endif  // WEFT_CPU_COPIES_H_
