// SPDX-License-Identifier: Apache-2.0
//
// What happens where room is not known.
#include "driver/launch/queue_room.h"

#include "driver/devices/device_program.h"
#include "driver/devices/devices.h"
#include "driver/library/driver_library.h"

namespace weft {

QueueRoom g_queue_rooms[kQueueRooms];
std::atomic<int> g_waiting_for_room{0};

namespace {

constexpr int32_t kHeldLaunches = 256;
// Long enough for two hundred launches of weft, and too short for a thousand of anything else.
constexpr uint64_t kHeldMicroseconds = 500;
// Launches further apart leave a queue empty, or are few: looking would cost more than releasing the GIL.
constexpr uint64_t kDenseMicroseconds = 100;

std::atomic<LaunchGil> g_launch_gil{LaunchGil::kAutomatic};

// A stream that captures only records. Neither question disturbs a capture.
bool is_idle(cuda::CUstream stream) {
  int32_t status = cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().cuStreamIsCapturing(stream, &status) != cuda::CUDA_SUCCESS) return false;
  if (status != cuda::CU_STREAM_CAPTURE_STATUS_NONE) return true;
  const RelaxedCapture relaxed;
  return driver().cuStreamQuery(stream) == cuda::CUDA_SUCCESS;
}

void open_room(QueueRoom* room, uintptr_t key, int32_t left, uint64_t until) {
  room->key.store(key, std::memory_order_relaxed);
  room->until.store(until, std::memory_order_relaxed);
  room->left.store(left, std::memory_order_relaxed);
}

}  // namespace

void set_launch_gil(LaunchGil chosen) {
  if (g_launch_gil.exchange(chosen, std::memory_order_relaxed) == chosen) return;
  for (QueueRoom& room : g_queue_rooms) room.left.store(0, std::memory_order_relaxed);
}

WEFT_COLD CrowdedQueue::CrowdedQueue(QueueRoom* room, uintptr_t key, cuda::CUstream stream, uint64_t now) {
  const LaunchGil chosen = g_launch_gil.load(std::memory_order_relaxed);
  if (chosen == LaunchGil::kHold) {
    open_room(room, key, INT32_MAX, UINT64_MAX);
    return;
  }
  released_.emplace();
  g_waiting_for_room.fetch_add(1, std::memory_order_relaxed);
  const bool is_known = room->key.load(std::memory_order_relaxed) == key;
  const uint64_t last = room->last.load(std::memory_order_relaxed);
  room->last.store(now, std::memory_order_relaxed);
  if (!is_known) open_room(room, key, 0, 0);
  if (chosen == LaunchGil::kAutomatic && released_->has_released() && is_known &&
      now - last < ticks_of(kDenseMicroseconds) && is_idle(stream)) {
    open_room(room, key, kHeldLaunches, now + ticks_of(kHeldMicroseconds));
  }
}

CrowdedQueue::~CrowdedQueue() {
  if (released_.has_value()) g_waiting_for_room.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace weft
