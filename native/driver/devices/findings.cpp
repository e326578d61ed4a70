// SPDX-License-Identifier: Apache-2.0
//
// Findings of kernels on a GPU, from the memory that they write to an FFI error.
#include "driver/devices/findings.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "driver/devices/devices.h"
#include "driver/devices/unload_queue.h"
#include "driver/library/driver_library.h"
#include "ffi_library.h"
#include "runtime/failure.h"
#include "runtime/report.h"

namespace weft {

using cuda::CUresult;

const char kReportVariable[] = "weft_report";

namespace {

constexpr int32_t kAssertion = -1;
constexpr size_t kCounterOffset = 8;
constexpr unsigned int kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE, a macro: for all contexts
// The calling thread's own default stream: others may be captured meanwhile.
const auto kOwnStream = reinterpret_cast<cuda::CUstream>(2);

struct Registry {
  std::mutex mutex;
  std::vector<Findings*> all;
};

Registry& registry() {
  static auto* only = new Registry;  // never destroyed: programs may live until the end
  return *only;
}

// The constant part of a finding, as the kernel has copied it.
class Site {
 public:
  explicit Site(const DeviceReport& report)
      : rest_(report.site, static_cast<size_t>(std::clamp<int64_t>(report.site_bytes, 0, kMost))) {
    int32_t numbers[3];
    if (rest_.size() < sizeof(numbers)) return;
    memcpy(numbers, rest_.data(), sizeof(numbers));
    rest_.remove_prefix(sizeof(numbers));
    kind = numbers[0];
    rank = numbers[1];
    count = numbers[2];
  }
  // The next text; empty after the last.
  std::string text() {
    const size_t end = std::min(rest_.find('\0'), rest_.size());
    std::string found(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return found;
  }

  int32_t kind = WEFT_CHECK_KIND_COUNT, rank = 0, count = 0;

 private:
  static constexpr int64_t kMost = sizeof(DeviceReport::site);
  std::string_view rest_;
};

std::string triple(const int32_t* values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + ")";
}

void raise_report(const DeviceReport& report) {
  Site site(report);
  const std::string kernel = site.text();
  if (site.kind == kAssertion) {
    const std::string place = site.text();
    raise_error("AssertionError", place + ", in " + kernel + ": assertion failed: " + site.text() +
                                      " (block " + triple(report.block) + ", thread " +
                                      triple(report.thread) + ")");
    return;
  }
  if (site.kind < 0 || site.kind >= WEFT_CHECK_KIND_COUNT || site.rank < 0 ||
      2 * site.rank > report.value_count) {
    raise_error("RuntimeError",
                "a kernel reported something that weft cannot read; this is a defect of weft");
    return;
  }
  const std::string excerpt = site.text(), places = site.text(), array = site.text(), access = site.text();
  const weft_check_site known{excerpt.c_str(),
                              places.c_str(),
                              array.c_str(),
                              access.c_str(),
                              site.kind,
                              site.rank,
                              site.count,
                              0,
                              0,
                              0};
  const int32_t *block = report.block, *thread = report.thread;
  try {
    raise_reports(kernel, {report_of(known, {block[0], block[1], block[2]}, {thread[0], thread[1], thread[2]},
                                     report.values)});
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
}

// Prints a finding that no call has raised.
void tell(const DeviceReport& report) {
  raise_report(report);
  TVMFFIObjectHandle error = nullptr;
  ffi().error_move_from_raised(&error);
  if (error == nullptr) return;
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  fprintf(stderr, "weft: a kernel has failed, and no call has said so:\n%.*s\n",
          static_cast<int>(cell->message.size), cell->message.data);
  ffi().object_dec_ref(error);
}

}  // namespace

Findings::Findings(DeviceReport* report, cuda::CUdeviceptr variable, int32_t device)
    : report_(report), variable_(variable), device_(device) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().all.push_back(this);
}

Findings::~Findings() {
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    auto& all = registry().all;
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
  }
  if (!driver_is_ready()) return;  // a forked child does not have the parent's pinned memory
  tell_once();
  queue_free_host(report_);
}

bool Findings::make(cuda::CUlibrary library, cuda::CUmodule module, int32_t device,
                    std::unique_ptr<Findings>* made, DriverError* error) {
  cuda::CUdeviceptr variable = 0;
  size_t bytes = 0;
  CUresult result = module != nullptr
                        ? driver().cuModuleGetGlobal(&variable, &bytes, module, kReportVariable)
                        : driver().cuLibraryGetGlobal(&variable, &bytes, library, kReportVariable);
  if (result == cuda::CUDA_ERROR_NOT_FOUND) return true;
  const std::string doing = "preparing the reports of kernels on cuda:" + std::to_string(device);
  if (result != cuda::CUDA_SUCCESS) {
    return error->cuda(result, module != nullptr ? "cuModuleGetGlobal" : "cuLibraryGetGlobal", doing);
  }
  void* memory = nullptr;
  result = driver().cuMemHostAlloc(&memory, sizeof(DeviceReport), kPortable);
  if (result != cuda::CUDA_SUCCESS) return error->cuda(result, "cuMemHostAlloc", doing);
  auto* report = new (memory) DeviceReport;
  report->ready = 0;
  const uint64_t words[2] = {reinterpret_cast<uint64_t>(memory), 0};
  const char* function = "cuMemcpyAsync";
  result =
      driver().cuMemcpyAsync(variable, reinterpret_cast<cuda::CUdeviceptr>(words), sizeof(words), kOwnStream);
  if (result == cuda::CUDA_SUCCESS) {
    function = "cuStreamSynchronize";
    result = driver().cuStreamSynchronize(kOwnStream);
  }
  if (result != cuda::CUDA_SUCCESS) {
    driver().cuMemFreeHost(memory);
    return error->cuda(result, function, doing);
  }
  made->reset(new Findings(report, variable, device));
  return true;
}

void Findings::raise() {
  raise_report(*report_);
  // The counter first: a kernel that finds something writes only if it counts from zero. A context that is
  // lost refuses this, and finds nothing more.
  if (driver().cuMemsetD32Async(variable_ + kCounterOffset, 0, 1, kOwnStream) == cuda::CUDA_SUCCESS) {
    driver().cuStreamSynchronize(kOwnStream);
  }
  __atomic_store_n(&report_->ready, 0, __ATOMIC_RELEASE);
}

bool any_finding() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  const auto& all = registry().all;
  return std::any_of(all.begin(), all.end(), [](const Findings* findings) { return findings->any(); });
}

bool raise_finding_on(int32_t device) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  for (Findings* findings : registry().all) {
    if ((device >= 0 && findings->device() != device) || !findings->any()) continue;
    findings->raise();
    return true;
  }
  return false;
}

void Findings::tell_once() {
  if (!any()) return;
  tell(*report_);
  __atomic_store_n(&report_->ready, 0, __ATOMIC_RELEASE);
}

void tell_findings() {
  if (!driver_is_ready()) return;
  std::lock_guard<std::mutex> lock(registry().mutex);
  for (Findings* findings : registry().all) findings->tell_once();
}

}  // namespace weft
