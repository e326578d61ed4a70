// SPDX-License-Identifier: Apache-2.0
//
// What kernels of one program on one device have found: failed checks of the sanitizer, failed assertions.
//
// A kernel writes its first finding into pinned memory of the host, so that reading it needs no driver call
// and works where the context is lost. The program's variable `weft_report` holds the address of that memory,
// and after it counts the findings.
//
// Ownership: a Findings belongs to its LoadedProgram. Its memory goes to the queue of unloads after the
// program's module or library, since a kernel may run until that is unloaded.
#ifndef WEFT_DRIVER_FINDINGS_H_
#define WEFT_DRIVER_FINDINGS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "driver/library/driver_error.h"

namespace weft {

// Written by src/weft/backends/cuda/lowering/debug.py.
struct DeviceReport {
  int32_t ready;
  int32_t block[3], thread[3];
  int32_t value_count;
  int32_t site_bytes;
  int32_t padding;
  int64_t values[64];
  char site[65536 - 552];  // three i32: kind (-1: an assertion), rank, count; then texts, each with a zero
};
static_assert(sizeof(DeviceReport) == 65536);

class Findings {
 public:
  // Makes the memory for code that was just loaded as `library` or `module` in the current context, and tells
  // it the address. `*made` stays NULL if the code has no such variable. False with an error of the driver.
  static bool make(cuda::CUlibrary library, cuda::CUmodule module, int32_t device,
                   std::unique_ptr<Findings>* made, DriverError* error);
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;
  // Prints a finding that no call has read.
  ~Findings();

  bool any() const { return __atomic_load_n(&report_->ready, __ATOMIC_ACQUIRE) != 0; }
  int32_t device() const { return device_; }
  // Sets the FFI error of this thread to the finding, which must be there, and waits for the next one. A
  // context of the device is current.
  void raise();
  // Prints a finding that no call has raised, if there is one.
  void tell_once();

 private:
  Findings(DeviceReport* report, cuda::CUdeviceptr variable, int32_t device);

  DeviceReport* report_;
  cuda::CUdeviceptr variable_;
  int32_t device_;
};

// The variable's name: code without it in its bytes has none.
extern const char kReportVariable[];

// Whether any program has found something: no driver call.
bool any_finding();
// Sets the FFI error to a finding of any program on a device, -1 for any device; false if there is none.
// Where no context of the device is current, the program's counter stays, so that it tells nothing more.
bool raise_finding_on(int32_t device);

// Prints the findings that no call has read, at the process's end.
void tell_findings();

}  // namespace weft

#endif  // WEFT_DRIVER_FINDINGS_H_
