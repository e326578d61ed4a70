// SPDX-License-Identifier: Apache-2.0
//
// The driver logs within the failing call, on its thread; the caller reads the log right after. Other failed
// calls, another library's or a probe, are logged too. The driver ends its lines about a call with "Returning
// 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernelEx", which tells them apart; without that line, entries
// older than a moment are dropped.
#include "driver/library/driver_log.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

namespace weft {
namespace {

constexpr auto kMoment = std::chrono::seconds(1);  // a busy machine may stop this thread for a while
constexpr int32_t kErrorLevel = 0;                 // CU_LOG_LEVEL_ERROR

constexpr char kReturning[] = "Returning ";
constexpr char kEndOfCall[] = " from ";

struct Log {
  std::chrono::steady_clock::rep written = 0;  // when the last line came
  size_t size = 0;
  char text[1024];
};

// Owned by the thread, from its first line on; not in thread-local memory itself, of which libraries that are
// loaded later need a part. A pointer, since the driver may log when the thread's owner is gone.
thread_local Log* t_log = nullptr;

struct LogOwner {
  ~LogOwner() {
    delete t_log;
    t_log = nullptr;
  }
};

// The thread's log; null where there is no memory for it.
Log* own_log() {
  static thread_local const LogOwner kOwner;
  if (t_log == nullptr) t_log = new (std::nothrow) Log;
  return t_log;
}

using Clock = std::chrono::steady_clock;

bool is_recent(const Log& log) {
  return Clock::now().time_since_epoch() - Clock::duration(log.written) < kMoment;
}

// Called by the driver, which allows no driver calls here.
void on_log(void*, int32_t level, char* message, size_t length) {
  if (level != kErrorLevel || message == nullptr) return;
  Log* own = own_log();
  if (own == nullptr) return;
  Log& log = *own;
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
  void* handle = nullptr;  // never unregistered: the driver lives until the process ends
  if (functions.cuLogsRegisterCallback != nullptr) functions.cuLogsRegisterCallback(on_log, nullptr, &handle);
}

std::string take_driver_log(const char* function) {
  if (t_log == nullptr) return {};
  const std::string text(t_log->text, is_recent(*t_log) ? t_log->size : 0);
  t_log->size = 0;
  std::string own, lines;
  bool is_separated = false;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    const size_t from = line.rfind(kEndOfCall);
    if (line.compare(0, sizeof(kReturning) - 1, kReturning) != 0 || from == std::string::npos) {
      lines += (lines.empty() ? "" : "\n    ") + line;
      continue;
    }
    is_separated = true;
    // The name may carry a version suffix: cuMemAlloc_v2.
    if (line.compare(from + sizeof(kEndOfCall) - 1, strlen(function), function) == 0) own = lines;
    lines.clear();
  }
  return is_separated ? own : lines;
}

}  // namespace weft
