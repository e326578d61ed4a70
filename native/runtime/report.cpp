// SPDX-License-Identifier: Apache-2.0
//
// Findings of the sanitizer, in words and as values. The site holds the compile-time part.
#include "runtime/report.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "ffi_library.h"
#include "runtime/array.h"
#include "runtime/failure.h"

namespace weft {
namespace {

constexpr char kError[] = "SanitizerError";

constexpr const char* kWords[] = {
#define WEFT_KIND(name, words, check) words,
    WEFT_CHECK_KINDS(WEFT_KIND)
#undef WEFT_KIND
};

std::string listed(const int64_t* values, int32_t count) {
  std::string text;
  for (int32_t number = 0; number < count; ++number) {
    if (number != 0) text += ", ";
    text += std::to_string(values[number]);
  }
  return text;
}

std::string accessed(const weft_check_site& site, const int64_t* indices) {
  return elements_text(site, indices) + (site.count == 1 ? " is " : " are ") + site.access;
}

std::string outside(const weft_check_site& site, const int64_t* values) {
  const int64_t* sizes = values + site.rank;
  std::string text = accessed(site, values);
  char separator = ':';
  for (int32_t number = 0; number < site.rank; ++number) {
    const int64_t first = values[number];
    const int64_t last = number + 1 == site.rank ? first + site.count - 1 : first;
    if (first >= 0 && last < sizes[number]) continue;
    const bool reaches = first >= 0 && first < sizes[number];
    const std::string dimension = std::to_string(number);
    text += std::string(1, separator) + " index " + dimension + (reaches ? " reaches " : " is ") +
            std::to_string(reaches ? last : first) + ", and " + site.array + ".shape[" + dimension + "] is " +
            std::to_string(sizes[number]);
    separator = ';';
  }
  return text;
}

double as_double(int64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The shortest text that is the number again.
std::string float_text(int64_t bits) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, as_double(bits));
    if (std::strtod(text, nullptr) == as_double(bits)) break;
  }
  return text;
}

// "2147483647 + 1", "f32(...)" or "sqrt(-1)": integers but where `is_float`.
std::string operation_text(const weft_check_site& site, const int64_t* values, bool is_float) {
  const auto operand = [&](int32_t number) {
    return is_float ? float_text(values[number]) : std::to_string(values[number]);
  };
  if (site.rank == 2 && std::isalpha(static_cast<unsigned char>(site.access[0])) == 0) {
    return operand(0) + " " + site.access + " " + operand(1);
  }
  std::string text = std::string(site.access) + "(";
  for (int32_t number = 0; number < site.rank; ++number) {
    text += (number == 0 ? "" : ", ") + operand(number);
  }
  return text + ")";
}

std::string sentence(const weft_check_site& site, const int64_t* values) {
  switch (site.kind) {
    case WEFT_CHECK_out_of_bounds:
      return outside(site, values);
    case WEFT_CHECK_misaligned:
      return accessed(site, values) + ": their address is not a multiple of their size";
    case WEFT_CHECK_uninitialized:
      return std::string(site.array) + " is " + site.access + ", and no mma has accumulated into it";
    case WEFT_CHECK_overflow:
      return operation_text(site, values, false) + " does not fit into " + site.array;
    case WEFT_CHECK_division_by_zero:
      return operation_text(site, values, false) + " divides by zero";
    case WEFT_CHECK_shift_past_the_width:
      return operation_text(site, values, false) + " shifts by the width of " + site.array + " or more";
    case WEFT_CHECK_conversion_out_of_range:
      return float_text(values[0]) + " does not fit into " + site.array;
    case WEFT_CHECK_new_nan:
      return operation_text(site, values, true) + " is NaN, and no operand is";
    default:
      return "unknown";
  }
}

// OUT_OF_BOUNDS: the words as a code.
std::string code_of(const char* words) {
  std::string code(words);
  for (char& letter : code) {
    letter = letter == ' ' ? '_' : static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 32 : letter);
  }
  return code;
}

// Values for Python's class; released with the array that they become.
class Values {
 public:
  ~Values() { release_values(values_.data(), static_cast<int64_t>(values_.size())); }

  bool add(const std::string& text) {
    const TVMFFIByteArray bytes{text.data(), text.size()};
    TVMFFIAny value = {};
    if (ffi().string_from_byte_array(&bytes, &value) != 0) return false;
    values_.push_back(value);
    return true;
  }

  bool add(const std::vector<int64_t>& numbers) {
    std::vector<TVMFFIAny> items;
    for (const int64_t number : numbers) items.push_back(integer(number));
    TVMFFIAny value = {};
    if (make_array(items.data(), static_cast<int64_t>(items.size()), &value) != 0) return false;
    values_.push_back(value);
    return true;
  }

  bool add(const Triple& triple) { return add(std::vector<int64_t>(triple.begin(), triple.end())); }

  bool add(int64_t number) {
    values_.push_back(integer(number));
    return true;
  }

  bool add(Values& items) {
    TVMFFIAny value = {};
    if (!items.finish(&value)) return false;
    values_.push_back(value);
    return true;
  }

  // The array. The values are its own from here on.
  bool finish(TVMFFIAny* result) {
    const std::vector<TVMFFIAny> values = std::move(values_);
    values_.clear();
    return make_array(values.data(), static_cast<int64_t>(values.size()), result) == 0;
  }

 private:
  static TVMFFIAny integer(int64_t number) {
    TVMFFIAny item = {};
    item.type_index = kTVMFFIInt;
    item.v_int64 = number;
    return item;
  }

  std::vector<TVMFFIAny> values_;
};

// The values of weft.Report, in order.
bool add_report(const std::string& kernel, const Report& report, Values& all) {
  const auto add_place = [](const ReportPlace& place, Values& values) {
    return values.add(place.access) && values.add(place.block) && values.add(place.thread) &&
           values.add(place.places);
  };
  Values values;
  Values other;
  const bool is_complete = report.other.excerpt.empty() || add_place(report.other, other);
  return is_complete && values.add(kWords[report.kind]) && values.add(report.said) &&
         values.add(report.array) && values.add(report.index) && values.add(report.shape) &&
         values.add(report.values) && values.add(kernel) && values.add(report.count) &&
         add_place(report.here, values) && values.add(other) && all.add(values);
}

std::string message_of(const Report& report) {
  std::string text = report.here.excerpt + (report.here.excerpt.empty() ? "[" : "\n[") +
                     code_of(kWords[report.kind]) + "] " + report.said;
  if (report.kind != WEFT_CHECK_divergent_barrier) {  // which lists its threads
    text += " (block " + triple_text(report.here.block) + ", thread " + triple_text(report.here.thread);
    if (report.count > 1) text += "; found " + std::to_string(report.count) + " times";
    text += ")";
  }
  if (!report.other.excerpt.empty()) text += "\nthe other place: " + report.other.excerpt;
  return text;
}

}  // namespace

std::string elements_text(const weft_check_site& site, const int64_t* indices) {
  const std::string element = std::string(site.array) + "[" + listed(indices, site.rank) + "]";
  return site.count == 1 ? element : std::to_string(site.count) + " elements from " + element;
}

std::string triple_text(const Triple& triple) { return "(" + listed(triple.data(), 3) + ")"; }

ReportPlace make_report_place(const weft_check_site& site, const Triple& block, const Triple& thread) {
  return {site.excerpt, site.places, site.access, block, thread};
}

Report report_of(const weft_check_site& site, const Triple& block, const Triple& thread,
                 const int64_t* values) {
  Report report;
  report.kind = site.kind;
  report.said = site.flags == 0 ? sentence(site, values) : "";
  report.array = site.array;
  report.here = make_report_place(site, block, thread);
  const int64_t* end = values + site.rank;
  if (site.kind >= WEFT_CHECK_overflow) {
    report.values.assign(values, end);
  } else {
    report.index.assign(values, end);
    report.shape.assign(end, end + site.rank);
  }
  return report;
}

void raise_reports(const std::string& kernel, const std::vector<Report>& reports) {
  std::string message;
  Values values;
  bool is_complete = values.add(kError);
  for (const Report& report : reports) {
    message += (message.empty() ? "" : "\n\n") + message_of(report);
    is_complete = is_complete && add_report(kernel, report, values);
  }
  TVMFFIAny context = {};
  if (!is_complete || !values.finish(&context)) context = {};
  const TVMFFIByteArray kind{kError, sizeof(kError) - 1};
  const TVMFFIByteArray text{message.data(), message.size()};
  const TVMFFIByteArray backtrace{"", 0};
  TVMFFIObjectHandle error = nullptr;
  const int32_t code =
      ffi().error_create_with_cause(&kind, &text, &backtrace, nullptr, context.v_obj, &error);
  if (context.v_obj != nullptr) ffi().object_dec_ref(context.v_obj);
  if (code != 0) {
    raise_error(kError, message);
    return;
  }
  ffi().error_set_raised(error);
  ffi().object_dec_ref(error);
}

}  // namespace weft
