// SPDX-License-Identifier: Apache-2.0
//
// Runs queued copies. Elements outside of the tensor are read as the map's fill value, and not written.
#include "cpu/copies.h"

#include <algorithm>
#include <cstring>

#include "cpu/boxes.h"
#include "cpu/mbarrier.h"
#include "cpu/reductions.h"

namespace weft {
namespace {

constexpr int64_t kChunk = 16;  // bytes that a swizzle moves together

// The greatest bit patterns without a sign are NaNs in each format of a GPU.
void fill(char* place, int64_t bytes, const weft_cpu_tensor_map& map) {
  if (map.fill == 0) {
    std::memset(place, 0, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t element = 0; element < bytes; element += map.element_bytes) {
    std::memset(place + element, 0xFF, static_cast<size_t>(map.element_bytes));
    place[element + map.element_bytes - 1] = 0x7F;
  }
}

char* swizzled(char* linear, int64_t mask) {
  const auto address = reinterpret_cast<uint64_t>(linear);
  return reinterpret_cast<char*>(address ^ (address >> 3 & static_cast<uint64_t>(mask)));
}

// Elements of a store, one after the other.
void write(const Copy& copy, char* place, const char* elements, size_t bytes) {
  if (copy.reduces != WEFT_TMA_REPLACE) return tma_combine(copy.map, copy.reduces, place, elements, bytes);
  if (bytes != 0) std::memcpy(place, elements, bytes);
}

// A row of the box, 16 bytes at a time: so much lies together in a swizzled tile. `offset` is the row's in
// the tile, in elements.
void run_row(const Copy& copy, char* global, bool is_inside, int64_t offset, int64_t row_elements) {
  const weft_cpu_tensor_map& map = copy.map;
  const weft_tma_tile& tile = *copy.tile;
  const int32_t last = map.rank - 1;
  const int64_t size = map.element_bytes;
  const int64_t atom_bytes = tile.atom_columns * size;
  for (int64_t column = 0; column < row_elements * size; column += kChunk) {
    const int64_t linear =
        offset * size + column / atom_bytes * tile.atom_stride * size + column % atom_bytes;
    char* shared = swizzled(copy.shared + linear, tile.mask);
    const int64_t first = copy.indices[last] + column / size;
    // Elements of the chunk that are inside, from `skipped` on.
    const int64_t count = kChunk / size;
    const int64_t skipped = is_inside ? std::clamp<int64_t>(-first, 0, count) : count;
    const int64_t end = is_inside ? std::clamp<int64_t>(map.sizes[last] - first, skipped, count) : count;
    char* place = global + (first + skipped) * size;
    const auto bytes = static_cast<size_t>((end - skipped) * size);
    if (copy.word == nullptr) {
      write(copy, place, shared + skipped * size, bytes);
      continue;
    }
    fill(shared, kChunk, map);
    if (bytes != 0) std::memcpy(shared + skipped * size, place, bytes);
  }
}

void run_rows(const Copy& copy) {
  const auto run = [&](char* global, bool is_inside, int64_t offset, int64_t elements) {
    run_row(copy, global, is_inside, offset, elements);
  };
  visit_rows(copy.map, *copy.tile, copy.indices, run);
}

void run(const Copy& copy) {
  if (copy.tile != nullptr) return run_rows(copy);
  const auto bytes = static_cast<size_t>(copy.bytes());
  if (copy.word == nullptr) return write(copy, copy.map.address, copy.shared, bytes);
  std::memcpy(copy.shared, copy.map.address, bytes);
}

Copy box_copy(const void* map, const weft_tma_tile* tile, const int32_t* indices, void* shared) {
  Copy copy{*static_cast<const weft_cpu_tensor_map*>(map),
            tile,
            {},
            static_cast<char*>(shared),
            nullptr,
            -1,
            WEFT_TMA_REPLACE,
            false};
  const int32_t offsets = copy.map.is_im2col != 0 ? copy.map.rank - 2 : 0;
  std::copy(indices, indices + copy.map.rank + offsets, copy.indices);
  return copy;
}

Copy bulk_copy(void* global, void* shared, int32_t bytes) {
  Copy copy{};
  copy.map.address = static_cast<char*>(global);
  copy.map.sizes[0] = bytes;
  copy.shared = static_cast<char*>(shared);
  copy.thread = -1;
  return copy;
}

}  // namespace

int64_t Copy::bytes() const {
  if (tile == nullptr) return map.sizes[0];
  int64_t bytes = map.element_bytes;
  for (const int32_t length : tile->box) bytes *= length;
  return bytes;
}

void Copies::add_message(char* to, uint64_t* word, const char* data, int32_t bytes) {
  Message message{to, word, bytes, {}};
  std::copy(data, data + bytes, message.data);
  messages_.push_back(message);
}

int32_t Copies::deliver_messages(uint64_t* word) {
  const bool phase = mbarrier_test(word, 0);
  std::vector<Message> others;
  for (const Message& message : messages_) {
    if (message.word != word || mbarrier_test(word, 0) != phase) {
      others.push_back(message);
      continue;
    }
    std::copy(message.data, message.data + message.bytes, message.to);
    const int32_t wrong = mbarrier_complete_bytes(word, message.bytes);
    if (wrong != 0) return wrong;
  }
  messages_.swap(others);
  return 0;
}

int32_t Copies::complete_loads(uint64_t* word) {
  int32_t wrong = messages_.empty() ? 0 : deliver_messages(word);
  std::vector<Copy> others;
  for (const Copy& copy : pending_) {
    if (copy.word != word || wrong != 0) {
      others.push_back(copy);
      continue;
    }
    run(copy);
    wrong = mbarrier_complete_bytes(word, copy.bytes());
  }
  pending_.swap(others);
  return wrong;
}

void Copies::complete_stores(int32_t thread, int32_t newest) {
  const auto is_own = [&](const Copy& copy) { return copy.word == nullptr && copy.thread == thread; };
  int64_t left = std::count_if(pending_.begin(), pending_.end(), is_own) - newest;
  std::vector<Copy> others;
  for (const Copy& copy : pending_) {
    if (is_own(copy) && left-- > 0) {
      run(copy);
    } else {
      others.push_back(copy);
    }
  }
  pending_.swap(others);
}

Copies::OwnCopies& Copies::own(int32_t thread) {
  const auto place = static_cast<std::size_t>(thread);
  if (place >= own_.size()) own_.resize(place + 1);
  return own_[place];
}

void Copies::add_elements(int32_t thread, char* to, const char* source, int32_t bytes) {
  own(thread).copies.push_back({to, source, bytes});
}

void Copies::commit_elements(int32_t thread) {
  OwnCopies& mine = own(thread);
  mine.ends.push_back(mine.copies.size());
}

void Copies::complete_elements(int32_t thread, int32_t newest) {
  OwnCopies& mine = own(thread);
  if (mine.ends.size() <= static_cast<std::size_t>(newest)) return;
  const auto groups = static_cast<std::ptrdiff_t>(mine.ends.size()) - newest;
  const std::size_t count = mine.ends[static_cast<std::size_t>(groups) - 1];
  for (std::size_t index = 0; index < count; ++index) {
    const Elements& copy = mine.copies[index];
    const auto bytes = static_cast<std::size_t>(copy.bytes);
    if (copy.source == nullptr) {
      std::memset(copy.to, 0, bytes);
    } else {
      std::memcpy(copy.to, copy.source, bytes);
    }
  }
  mine.copies.erase(mine.copies.begin(), mine.copies.begin() + static_cast<std::ptrdiff_t>(count));
  mine.ends.erase(mine.ends.begin(), mine.ends.begin() + groups);
  for (std::size_t& end : mine.ends) end -= count;
}

bool Copies::has_stores() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const Copy& copy) { return copy.word == nullptr; });
}

const char* Copies::undelivered() const {
  if (!messages_.empty()) {
    return "a block ended with an st_async to it in flight; its threads wait for the barrier";
  }
  const bool found =
      std::any_of(pending_.begin(), pending_.end(), [](const Copy& copy) { return copy.is_sent; });
  return found ? "a block ended with a multicast load to it in flight; its threads wait for the barrier"
               : nullptr;
}

void add_sent_load(Copies* copies, const void* map, const weft_tma_tile* tile, const int32_t* indices,
                   void* shared, void* word) {
  Copy copy = box_copy(map, tile, indices, shared);
  copy.word = static_cast<uint64_t*>(word);
  copy.is_sent = true;
  copies->add(copy);
}

void tma_load(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile, const int32_t* indices,
              void* shared, void* word) {
  Copy copy = box_copy(map, tile, indices, shared);
  copy.word = static_cast<uint64_t*>(word);
  static_cast<Copies*>(block->copies)->add(copy);
}

void tma_store(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile,
               const int32_t* indices, void* shared, int32_t thread) {
  tma_reduce(block, map, tile, indices, shared, thread, WEFT_TMA_REPLACE);
}

void tma_reduce(const weft_cpu_block* block, const void* map, const weft_tma_tile* tile,
                const int32_t* indices, void* shared, int32_t thread, int32_t reduction) {
  Copy copy = box_copy(map, tile, indices, shared);
  copy.thread = thread;
  copy.reduces = reduction;
  static_cast<Copies*>(block->copies)->add(copy);
}

void bulk_load(const weft_cpu_block* block, void* shared, const void* source, int32_t bytes, void* word) {
  Copy copy = bulk_copy(const_cast<void*>(source), shared, bytes);
  copy.word = static_cast<uint64_t*>(word);
  static_cast<Copies*>(block->copies)->add(copy);
}

void bulk_store(const weft_cpu_block* block, void* to, void* shared, int32_t bytes, int32_t thread) {
  bulk_reduce(block, to, shared, bytes, thread, WEFT_TMA_REPLACE, 0);
}

void bulk_reduce(const weft_cpu_block* block, void* to, void* shared, int32_t bytes, int32_t thread,
                 int32_t reduction, int32_t data_type) {
  Copy copy = bulk_copy(to, shared, bytes);
  copy.thread = thread;
  copy.reduces = reduction;
  copy.map.data_type = data_type;
  static_cast<Copies*>(block->copies)->add(copy);
}

void tma_wait(const weft_cpu_block* block, int32_t thread, int32_t pending) {
  static_cast<Copies*>(block->copies)->complete_stores(thread, pending);
}

void cp_async_copy(const weft_cpu_block* block, int32_t thread, void* to, const void* source, int32_t bytes) {
  static_cast<Copies*>(block->copies)
      ->add_elements(thread, static_cast<char*>(to), static_cast<const char*>(source), bytes);
}

void cp_async_commit(const weft_cpu_block* block, int32_t thread) {
  static_cast<Copies*>(block->copies)->commit_elements(thread);
}

void cp_async_wait(const weft_cpu_block* block, int32_t thread, int32_t pending) {
  static_cast<Copies*>(block->copies)->complete_elements(thread, pending);
}

}  // namespace weft
