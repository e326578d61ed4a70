// SPDX-License-Identifier: Apache-2.0
//
// What the sanitizer found, in words and as values. The site holds what is known at compile time.
#include "runtime/report.h"

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
#define WEFT_KIND(name, words) words,
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

// "a[3, 8] is read", or "4 elements from a[6] are read".
std::string accessed(const weft_check_site& site, const int64_t* indices) {
  const std::string element = std::string(site.array) + "[" + listed(indices, site.rank) + "]";
  if (site.count == 1) return element + " is " + site.access;
  return std::to_string(site.count) + " elements from " + element + " are " + site.access;
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

std::string sentence(const weft_check_site& site, const int64_t* values) {
  switch (site.kind) {
    case WEFT_CHECK_out_of_bounds:
      return outside(site, values);
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

  bool add(const int64_t* numbers, int32_t count) {
    std::vector<TVMFFIAny> items(static_cast<size_t>(count));
    for (int32_t number = 0; number < count; ++number) {
      items[number] = {};
      items[number].type_index = kTVMFFIInt;
      items[number].v_int64 = numbers[number];
    }
    TVMFFIAny value = {};
    if (make_array(items.data(), count, &value) != 0) return false;
    values_.push_back(value);
    return true;
  }

  // The array, or NULL. The values are its own from here on.
  TVMFFIObjectHandle finish() {
    TVMFFIAny result = {};
    const std::vector<TVMFFIAny> values = std::move(values_);
    values_.clear();
    const bool made = make_array(values.data(), static_cast<int64_t>(values.size()), &result) == 0;
    return made ? result.v_obj : nullptr;
  }

 private:
  std::vector<TVMFFIAny> values_;
};

TVMFFIObjectHandle context_of(const Finding& found, const std::string& said) {
  const weft_check_site& site = found.site;
  const bool is_access = site.kind == WEFT_CHECK_out_of_bounds;
  const int32_t rank = is_access ? site.rank : 0;
  Values values;
  const bool complete = values.add(kError) && values.add(kWords[site.kind]) && values.add(said) &&
                        values.add(site.array) && values.add(site.access) && values.add(found.values, rank) &&
                        values.add(found.values + rank, rank) && values.add(found.block, 3) &&
                        values.add(found.thread, 3) && values.add(found.kernel) && values.add(site.places);
  return complete ? values.finish() : nullptr;
}

void describe_and_raise(const Finding& found) {
  const std::string said = sentence(found.site, found.values);
  const std::string message = std::string(found.site.excerpt) + "\n[" + code_of(kWords[found.site.kind]) +
                              "] " + said + " (block (" + listed(found.block, 3) + "), thread (" +
                              listed(found.thread, 3) + "))";
  const TVMFFIByteArray kind{kError, sizeof(kError) - 1};
  const TVMFFIByteArray text{message.data(), message.size()};
  const TVMFFIByteArray backtrace{"", 0};
  TVMFFIObjectHandle context = context_of(found, said);
  TVMFFIObjectHandle error = nullptr;
  const int32_t code = ffi().error_create_with_cause(&kind, &text, &backtrace, nullptr, context, &error);
  if (context != nullptr) ffi().object_dec_ref(context);
  if (code != 0) {
    raise_error(kError, message);
    return;
  }
  ffi().error_set_raised(error);
  ffi().object_dec_ref(error);
}

}  // namespace

void raise_finding(const Finding& found) {
  try {
    describe_and_raise(found);
  } catch (const std::bad_alloc&) {
    raise_error("MemoryError", "no memory to describe an error");
  }
}

int32_t sanitizer_fail(weft_cpu_launch* launch, const weft_check_site* site, int64_t block, int64_t thread,
                       const int64_t* values) {
  __atomic_store_n(&launch->failed, 1, __ATOMIC_RELAXED);  // blocks on other threads stop when they see it
  const int32_t *grid = launch->grid, *threads = launch->block;
  raise_finding({*site,
                 values,
                 launch->kernel_name,
                 {block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]},
                 {thread % threads[0], thread / threads[0] % threads[1], thread / threads[0] / threads[1]}});
  return 1;
}

}  // namespace weft
