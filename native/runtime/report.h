// SPDX-License-Identifier: Apache-2.0
//
// Findings of the sanitizer, in words and as values.
#ifndef WEFT_RUNTIME_REPORT_H_
#define WEFT_RUNTIME_REPORT_H_

#include <weft/runtime_table.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// x, y and z.
using Triple = std::array<int64_t, 3>;

// A place in the program where a thread was.
struct ReportPlace {
  std::string excerpt;  // empty: there is no place
  std::string places;   // the same as data
  std::string access;
  Triple block{}, thread{};
};

struct Report {
  int32_t kind = 0;  // enum weft_check_kind
  std::string said;  // what happened, in one sentence
  std::string array;
  std::vector<int64_t> index, shape, values;
  ReportPlace here, other;
  int64_t count = 1;  // of equal ones; this is the first

  bool equals(const Report& another) const {
    return kind == another.kind && here.places == another.here.places && array == another.array &&
           other.places == another.other.places;
  }
};

// The report of a check in a kernel's own code. Throws std::bad_alloc, like all here.
Report report_of(const weft_check_site& site, const Triple& block, const Triple& thread,
                 const int64_t* values);
// The place of a site.
ReportPlace make_report_place(const weft_check_site& site, const Triple& block, const Triple& thread);
// "a[3, 8]", or "4 elements from a[6]".
std::string elements_text(const weft_check_site& site, const int64_t* indices);
// "(1, 0, 0)".
std::string triple_text(const Triple& triple);
// Sets the FFI error: its kind is "SanitizerError", its message is complete, and its extra context is the
// array that weft.SanitizerError is made from.
void raise_reports(const std::string& kernel, const std::vector<Report>& reports);

}  // namespace weft

#endif  // WEFT_RUNTIME_REPORT_H_
