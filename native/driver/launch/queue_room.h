// SPDX-License-Identifier: Apache-2.0
//
// Work is queued with the GIL held while the stream's queue is known to have room, and without it otherwise.
// The driver's queue holds about 1,024 launches; the next one waits for the device, and if the device waits
// for a Python callback, for the GIL. Room is known for a while after the stream was found idle: so few
// launches, of weft or anything else, fit into that time that they cannot fill the queue; one that is slow
// uses the time up.
#ifndef WEFT_DRIVER_QUEUE_ROOM_H_
#define WEFT_DRIVER_QUEUE_ROOM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "driver/library/cuda_abi.h"
#include "hints.h"
#include "runtime/interpreter.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ctime>
#endif

namespace weft {

// The processor's clock: some 10 ns to read, in ticks of no exact length.
inline uint64_t read_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
#endif
}

// On x86 taken for 2.5 GHz: between 2 and 5 no limit here is far off.
inline uint64_t ticks_of(uint64_t microseconds) {
#if defined(__x86_64__)
  return microseconds * 2500;
#elif defined(__aarch64__)
  uint64_t frequency;
  __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
  return microseconds * frequency / 1'000'000;
#else
  return microseconds * 1000;
#endif
}

// What WEFT_LAUNCH_GIL says.
enum class LaunchGil : int { kAutomatic, kHold, kRelease };
void set_launch_gil(LaunchGil chosen);

// Estimates for one stream. Several threads may write the fields; the time limit bounds the effect of a lost
// update.
struct QueueRoom {
  std::atomic<uintptr_t> key{0};  // the stream and its device
  std::atomic<int32_t> left{0};   // launches with the GIL before the stream is looked at again
  std::atomic<uint64_t> until{0};
  std::atomic<uint64_t> last{0};  // when something was queued without the GIL
};

constexpr size_t kQueueRooms = 64;
extern QueueRoom g_queue_rooms[kQueueRooms];
extern std::atomic<int> g_waiting_for_room;  // threads that queue without the GIL and may wait

// The handles of the default streams are those of every device.
inline uintptr_t room_key(cuda::CUstream stream, int32_t device) {
  return reinterpret_cast<uintptr_t>(stream) ^ (static_cast<uintptr_t>(device) + 1) << 48;
}

inline QueueRoom& room_of(uintptr_t key) {
  return g_queue_rooms[(key >> 4 ^ key >> 10 ^ key >> 48 ^ key) % kQueueRooms];
}

// One place of the room. False where there may be none: also while another thread waits, which may hold a
// lock of the driver.
inline bool take_room(QueueRoom* room, uintptr_t key, uint64_t now) {
  const int32_t left = room->left.load(std::memory_order_relaxed);
  if (WEFT_UNLIKELY(left <= 0 || room->key.load(std::memory_order_relaxed) != key ||
                    now >= room->until.load(std::memory_order_relaxed) ||
                    g_waiting_for_room.load(std::memory_order_relaxed) != 0)) {
    return false;
  }
  room->left.store(left - 1, std::memory_order_relaxed);
  return true;
}

// Without the GIL, if this thread has it, for the life of the guard. Looks whether the stream is idle.
class CrowdedQueue {
 public:
  CrowdedQueue(QueueRoom* room, uintptr_t key, cuda::CUstream stream, uint64_t now);
  CrowdedQueue(const CrowdedQueue&) = delete;
  CrowdedQueue& operator=(const CrowdedQueue&) = delete;
  ~CrowdedQueue();

 private:
  std::optional<WithoutGil> released_;  // none where the GIL is to be held
};

// Calls the driver to queue work on `stream`, a stream of the current context or of its own.
template <typename Call>
inline cuda::CUresult queue_work(cuda::CUstream stream, int32_t device, const Call& call) {
  const uintptr_t key = room_key(stream, device);
  QueueRoom* room = &room_of(key);
  const uint64_t now = read_ticks();
  if (WEFT_LIKELY(take_room(room, key, now))) return call();
  const CrowdedQueue crowded(room, key, stream, now);
  return call();
}

}  // namespace weft

#endif  // WEFT_DRIVER_QUEUE_ROOM_H_
