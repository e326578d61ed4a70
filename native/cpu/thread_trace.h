// SPDX-License-Identifier: Apache-2.0
//
// Trace of one thread of a launch, line by line, for weft.testing.trace_thread.
//
// The launches of a traced function run on the thread of the machine that calls it, so all here is
// that thread's own. Events of other threads of a kernel are dropped.
#ifndef WEFT_CPU_THREAD_TRACE_H_
#define WEFT_CPU_THREAD_TRACE_H_

#include <weft/runtime_table.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft {

class ThreadTrace {
 public:
  struct Launch {
    std::string kernel;
    int32_t grid[3], block[3];
  };
  struct Event {
    int32_t launch;           // its number
    const std::string* text;  // owned by the trace
    std::vector<int64_t> values;
  };

  ThreadTrace(const int64_t* block, const int64_t* thread, std::size_t most);

  void begin(const weft_cpu_launch& launch);
  void add(const char* text, int64_t block, int64_t thread, const int64_t* values, int32_t count) noexcept;

  const std::vector<Launch>& launches() const { return launches_; }
  const std::vector<Event>& events() const { return events_; }
  int64_t dropped() const { return dropped_; }  // events beyond those that are kept

 private:
  int64_t block_[3], thread_[3];
  std::size_t most_;
  int64_t linear_block_ = -1, linear_thread_ = -1;  // in the running launch; -1: it has no such thread
  std::vector<Launch> launches_;
  std::vector<Event> events_;
  std::deque<std::string> texts_;
  std::unordered_map<const char*, const std::string*> known_;  // of the running launch's image
  int64_t dropped_ = 0;
};

// From now on, of launches of the calling thread. Throws std::bad_alloc.
void start_thread_trace(const int64_t* block, const int64_t* thread, std::size_t most);

// Ends the calling thread's trace and returns it; null if there is none.
std::unique_ptr<ThreadTrace> take_thread_trace() noexcept;

// Before the first block of a launch with WEFT_LAUNCH_TRACED. Throws std::bad_alloc.
void begin_traced_launch(const weft_cpu_launch& launch);

// Row of the runtime table.
void thread_event(weft_cpu_launch* launch, const char* text, int64_t block, int64_t thread,
                  const int64_t* values, int32_t count);

}  // namespace weft

#endif  // WEFT_CPU_THREAD_TRACE_H_
