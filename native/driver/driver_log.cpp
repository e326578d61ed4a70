// SPDX-License-Identifier: Apache-2.0
//
// The driver logs within the call that fails, on its thread; whoever made the call asks for it right after.
// Other libraries' failed calls are logged, too, so what is older than a moment is not told.
#include "driver/driver_log.h"

#include <chrono>
#include <cstring>

namespace weft {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(20);
constexpr int32_t kErrorLevel = 0;  // CU_LOG_LEVEL_ERROR

// Plain data, so that a thread's end has nothing to destroy.
struct Log {
  std::chrono::steady_clock::rep written;  // when the last line came
  size_t size;
  char text[1024];
};
thread_local Log t_log{0, 0, {}};

using Clock = std::chrono::steady_clock;

bool is_recent(const Log& log) {
  return Clock::now().time_since_epoch() - Clock::duration(log.written) < kMoment;
}

// Called by the driver, which allows no call of its own here.
void on_log(void*, int32_t level, char* message, size_t length) {
  if (level != kErrorLevel || message == nullptr) return;
  Log& log = t_log;
  if (!is_recent(log)) log.size = 0;
  log.written = Clock::now().time_since_epoch().count();
  while (length > 0 && (message[length - 1] == '\n' || message[length - 1] == 0)) --length;
  const size_t separator = log.size == 0 ? 0 : 1;
  if (length == 0 || log.size + separator + length > sizeof(log.text)) return;
  if (separator != 0) log.text[log.size++] = '\n';
  memcpy(log.text + log.size, message, length);
  log.size += length;
}

}  // namespace

void listen_to_driver_log(const cuda::DriverFunctions& functions) {
  void* handle = nullptr;  // never unregistered: the driver lives as long as the process
  if (functions.cuLogsRegisterCallback != nullptr) functions.cuLogsRegisterCallback(on_log, nullptr, &handle);
}

std::string take_driver_log() {
  Log& log = t_log;
  const size_t size = is_recent(log) ? log.size : 0;
  log.size = 0;
  return std::string(log.text, size);
}

}  // namespace weft
