// SPDX-License-Identifier: Apache-2.0
//
// State of the sanitizer for one launch: accesses, which threads are ordered after them, and findings.
//
// An instrumented launch runs in one call on the calling thread, so its findings are always the same. Two
// accesses of an element are in order if the clocks of their threads say so, whichever ran first.
#ifndef WEFT_CPU_RACE_DETECTOR_H_
#define WEFT_CPU_RACE_DETECTOR_H_

#include <weft/runtime_table.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/clocks.h"
#include "cpu/epochs.h"
#include "cpu/shadow.h"
#include "runtime/launch/call_scratch.h"
#include "runtime/report.h"

namespace weft {

// The "block" of copies that report to the phases of mbarriers; its threads are numbers of places.
constexpr int64_t kPhases = int64_t{1} << 40;

// Accesses by which threads learn of each other.
constexpr int32_t kOrders = WEFT_ACCESS_ATOMIC | WEFT_ACCESS_AWAITED | WEFT_ACCESS_PUBLISHES;

inline std::size_t at(int64_t number) { return static_cast<std::size_t>(number); }

// One launch's. Nothing throws; memory that is missing ends the launch with an error.
class RaceDetector {
 public:
  // `owner` has the arrays and tensors of the call whose unwritten bytes are looked for; nullptr: none.
  RaceDetector(weft_cpu_launch* launch, int64_t coresidency, const int64_t* cluster,
               const weft_call_frame* owner);
  ~RaceDetector();
  RaceDetector(const RaceDetector&) = delete;
  RaceDetector& operator=(const RaceDetector&) = delete;

  // See the rows of the runtime table.
  int32_t access(const weft_check_site& site, int64_t block, int64_t thread, const void* address) noexcept;
  // The same for an access that is as most are, or false: nothing is said of it yet.
  bool access_one(const weft_check_site& site, int64_t block, int64_t thread, const char* address) const;
  bool access_quickly(const weft_check_site& site, int64_t block, int64_t thread, const char* address);
  bool access_elements(const weft_check_site& site, int64_t block, int64_t thread, const char* address,
                       int32_t count);
  int32_t copy(const weft_check_site& site, int64_t block, int64_t thread, const void* address, int64_t bytes,
               const void* word) noexcept;
  int32_t copy_box(const weft_check_site& site, int64_t block, int64_t thread, const weft_cpu_tensor_map& map,
                   const weft_tma_tile& tile, const int32_t* indices, const void* word) noexcept;
  void event(int32_t event, int64_t block, int64_t thread, const void* address, int64_t bytes) noexcept;
  int32_t found(const weft_check_site& site, int64_t block, int64_t thread, const int64_t* values) noexcept;

  // Threads [first, first + 32) of `lanes` meet, or all threads of these blocks.
  void meet_lanes(int64_t block, int32_t first, uint32_t lanes) noexcept;
  void meet_threads(int64_t block, int32_t first, int32_t count) noexcept;
  void meet_blocks(const int64_t* blocks, int32_t count) noexcept;
  // A thread comes to a named barrier, or goes on after it; `opened`: all have gone on.
  void named_arrive(int64_t block, int32_t barrier, int32_t thread) noexcept;
  void named_pass(int64_t block, int32_t barrier, int32_t thread) noexcept;
  void named_opened(int64_t block, int32_t barrier) noexcept;
  // These blocks may reach each other's shared memory, which lies `bytes` apart from `shared` on.
  void share(const std::vector<int64_t>& blocks, const char* shared, int64_t bytes) noexcept;
  // All threads of a block have returned. Whether the launch goes on.
  bool ended(int64_t block) noexcept;

  bool reports_barriers() const { return (coresident_ & WEFT_LAUNCH_BARRIERS) != 0; }
  // Adds a finding; whether the launch continues.
  bool add(Report report);

  // To be called when the launch has ended with `code`. Returns it, or -1 with the error set if anything was
  // found.
  int32_t finish(int32_t code) noexcept;

 private:
  // An access as it is checked against the cells of memory.
  struct Access {
    const weft_check_site& site;
    InstrumentedBlock& block;
    int32_t thread;
    Record record;  // as others will find it
    bool is_copy;

    const ThreadClock& clock() const { return block.threads[at(thread)]; }
  };
  struct Quick;
  // What quick accesses need of the block that runs, which has no number where there are none.
  struct Current {
    int64_t block = -1;
    const ThreadClock* threads = nullptr;
    const Shared<Clock>* common = nullptr;
    uint64_t met = 0;
    uint64_t first = 0, known = 0;  // epochs that all know, from which and how many, as bits of a record
    uint64_t launch = 0;            // the first epoch of the launch, as well
    // Shared memory that it may access quickly: its own.
    const char* shared = nullptr;
    uint64_t shared_bytes = ~uint64_t{0};

    bool is_own(const char* address) const {
      return reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(shared) < shared_bytes;
    }
  };
  // The shared memory of a block that others may reach.
  struct Memory {
    int64_t block = 0;
    bool has_ended = false;
    Record end;  // where its last thread has returned
    std::vector<bool> returned;
    // The last access of each thread of another block, and the report of a race unless it comes before.
    std::map<std::pair<int64_t, int32_t>, std::pair<Record, Report>> others;
  };
  // What `found` is to report of an access.
  struct Seen {
    int32_t kind = -1;  // none
    Record other;
    const char* address = nullptr;  // of a write that may change nothing
    int64_t bytes = 0;              // 0: another finding
    Memory* memory = nullptr;       // of another block, by an access whose record is `other`
    const char* begin = nullptr;    // of the access
    int64_t length = 0;
    Record overwritten = {};  // the write to another array in the same memory, where one is read after it
  };
  // A read of memory that no thread had written: a race if one writes it yet, and nothing orders the two.
  struct Unwritten {
    Record read;
    const char* address;
    int64_t bytes;
    int64_t block;   // of the thread that reads
    bool is_shared;  // memory that ends with its block
    Report report;   // unless it is a race
  };
  // A write that races with another write, unless it changes nothing.
  struct Doubt {
    Report report;
    const char* address;
    std::string before;
    bool is_shared;  // memory that ends with its block
  };

  template <typename Body>
  int32_t safely(Body body) noexcept;

  InstrumentedBlock& block(int64_t number);
  int64_t group_of(int64_t block) const;
  RendezvousPoint& place_at(int64_t block, const void* word);
  const weft_check_site& site_of(const Record& record) const;
  Record record_at(const weft_check_site& site, uint64_t epoch) const {
    return Record::of(
        epoch, reinterpret_cast<const int64_t*>(&site) - reinterpret_cast<const int64_t*>(first_site_));
  }
  Record record_of(const weft_check_site& site, uint64_t epoch);
  Record begin_copy(const weft_check_site& site, InstrumentedBlock& own, int32_t thread, const void* word);
  Owner owner_of(const Record& record) const { return epochs_.owner(record.epoch()); }
  bool knows(const ThreadClock& own, const Record& record, int64_t beyond) const;
  bool is_stale(const Record& record, const Access& access) const;
  bool is_past(const Record& record, const Access& access) const;
  bool is_before(const Record& record, const Access& access) const;
  bool is_coresident(const Record& record, const weft_check_site& site, int64_t block) const;
  void check_cell(Cell& cell, const Access& access);
  void check_history(History& history, const Access& access);
  // Scratch memory (weft.scratch, weft.global_scratch) begins with its call: whether an access reads only
  // written bytes; a write marks its bytes as written. Also false without memory.
  bool pass_scratch(int32_t flags, const char* address, int64_t bytes);
  void check_scratch(const Access& access, const char* address, int64_t bytes);
  Memory* memory_at(const char* address);
  void check_lifetime(const Access& access, const char* address);
  int32_t tell_lifetime(const weft_check_site& site, int64_t block, int64_t thread, const int64_t* values,
                        Report report);
  ReportPlace end_of(const Memory& memory) const;
  void note_end(const weft_check_site& site, int64_t block, int64_t thread);
  void doubt(const Access& access);
  // Keeps the report of an access that read unwritten memory; false: the launch ends.
  bool keep_unwritten(const Access& access, Report report);
  // Forgets those reads that race with an access, which is a finding by itself.
  void drop_unwritten(const Access& access);
  // Reports the reads that no write can race with any more: of a block whose threads have met or returned (of
  // every one: kEvery), or at the launch's end of all memory.
  static constexpr int64_t kEvery = -1;
  void settle_unwritten(int64_t block, bool is_end = false);
  bool check_record(const Record& other, const Access& access) {
    // A thread's own accesses come one after the other.
    if (other.bits == 0 || (other.epoch() == access.record.epoch() && !access.is_copy)) return true;
    return check_other(other, access);
  }
  bool check_other(const Record& other, const Access& access);
  void order_atomics(const Access& access, const void* address);
  int32_t check_range(const Access& access, const void* address, int64_t bytes);
  bool continues() const { return (coresident_ & WEFT_LAUNCH_CONTINUES) != 0; }
  void see(int32_t kind, const Record& other);
  // Whether an element was written as one of another array, whose memory is reused.
  bool is_overwritten(const Record& write, const weft_check_site& site) const {
    const int32_t sharer = site.sharer;
    if (sharer == 0 || write.bits == 0) return false;
    const int32_t other = site_of(write).sharer;
    return other != 0 && other != sharer;
  }
  void answer();
  // Lets the accesses of the block that runs be quick, unless something has to be settled before.
  void begin_quick();
  void end_quick() {
    is_quiet_ = false;
    quick_.block = -1;
  }
  bool settle() { return is_quiet_ ? false : settle_doubts(); }
  bool settle_doubts();
  void complete(const Access& access, const int64_t* values, Report& report) const;

  weft_cpu_launch* launch_;
  int64_t coresident_;
  void* scratch_;
  void* tensors_;
  HostScratch recent_scratch_;
  int64_t cluster_[3];
  int32_t threads_;  // of a block
  std::unique_ptr<Shadow> shadow_;
  Epochs epochs_;
  Clocks clocks_{&epochs_};
  std::unordered_map<int64_t, std::unique_ptr<InstrumentedBlock>> blocks_;
  InstrumentedBlock* recent_ = nullptr;
  std::vector<Memory> memories_;  // of the blocks that are alive, if they reach each other's
  const char* shared_ = nullptr;  // of the first one
  int64_t shared_bytes_ = 0;      // from one to the next
  Current quick_;
  std::unordered_map<const void*, RendezvousPoint> places_;
  std::vector<const RendezvousPoint*> numbered_places_;
  std::unordered_map<const void*, Shared<Clock>> atomics_;
  const weft_check_site* first_site_ = nullptr;
  Seen seen_;
  bool is_unwritten_ = false;  // what of the last element was read
  std::vector<Doubt> doubts_;
  std::vector<Unwritten> unwritten_;
  std::vector<Report> reports_;
  bool is_quiet_ = true;   // no doubts, not ended, enough memory
  bool is_ended_ = false;  // by a finding
  bool has_no_memory_ = false;
};

template <typename Body>
int32_t RaceDetector::safely(Body body) noexcept {
  if (has_no_memory_) return 1;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    has_no_memory_ = true;
    end_quick();
    launch_->failed = 1;
    return 1;
  }
}

inline RaceDetector* detector_of(const weft_cpu_launch* launch) {
  return static_cast<RaceDetector*>(launch->detector);
}

// Where a linear number, x fastest, is among blocks or threads.
Triple triple_of(int64_t linear, const int32_t* sizes);

// Rows of the runtime table. sanitizer_fail records a finding and marks the launch as failed, or returns 0 if
// it continues. `block` and `thread` are linear, x fastest.
int32_t sanitizer_fail(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const int64_t* values);
int32_t sanitizer_access(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                         const void* address);
int32_t sanitizer_copy(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const void* address, int64_t bytes, const void* word);
int32_t sanitizer_box(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                      const void* map, const weft_tma_tile* tile, const int32_t* indices, const void* word);
void sanitizer_event(weft_cpu_launch* launch, int32_t event, int64_t block, int64_t thread,
                     const void* address, int64_t bytes);

}  // namespace weft

#endif  // WEFT_CPU_RACE_DETECTOR_H_
