// SPDX-License-Identifier: Apache-2.0
//
// A ring of launches, each slot guarded by a sequence number: odd while it is being written.
#include "driver/launch/launch_history.h"

#include <atomic>
#include <cstring>

namespace weft {
namespace {

constexpr uint64_t kSlots = 16;
constexpr size_t kWords = (sizeof(LaunchRecord) + 7) / 8;

// The record is kept as relaxed atomic words: if readers and writers meet, the sequence number shows it.
struct alignas(64) Slot {
  std::atomic<uint64_t> sequence{0};
  std::atomic<uint64_t> words[kWords]{};
};

std::atomic<uint64_t> g_next{0};
Slot g_slots[kSlots];

bool read_slot(uint64_t ticket, LaunchRecord* record) {
  const Slot& slot = g_slots[ticket % kSlots];
  const uint64_t expected = 2 * ticket + 2;
  if (slot.sequence.load(std::memory_order_acquire) != expected) return false;
  uint64_t words[kWords];
  for (size_t index = 0; index < kWords; ++index)
    words[index] = slot.words[index].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.sequence.load(std::memory_order_relaxed) != expected) return false;
  memcpy(record, words, sizeof(*record));
  return true;
}

std::string triple(const uint32_t* values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + ")";
}

}  // namespace

void record_launch(const LaunchRecord& record) {
  const uint64_t ticket = g_next.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = g_slots[ticket % kSlots];
  uint64_t words[kWords];
  static_assert(sizeof(words) == sizeof(record), "every byte is written");
  memcpy(words, &record, sizeof(record));
  slot.sequence.store(2 * ticket + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t index = 0; index < kWords; ++index)
    slot.words[index].store(words[index], std::memory_order_relaxed);
  slot.sequence.store(2 * ticket + 2, std::memory_order_release);
}

std::string describe_last_launches() {
  std::string text;
  const uint64_t end = g_next.load(std::memory_order_acquire);
  for (uint64_t back = 1; back <= kSlots && back <= end; ++back) {
    LaunchRecord record;
    if (!read_slot(end - back, &record)) continue;
    char stream[32];
    snprintf(stream, sizeof(stream), "0x%llx",
             static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(record.stream)));
    text += "    " + std::string(record.kernel) + " on cuda:" + std::to_string(record.device) +
            ", grid=" + triple(record.grid) + ", block=" + triple(record.block) +
            ", shared_memory_bytes=" + std::to_string(record.shared_bytes) + ", stream=" + stream + "\n";
  }
  return text;
}

}  // namespace weft
