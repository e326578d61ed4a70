// SPDX-License-Identifier: Apache-2.0
//
// Results that are objects. Incoming values are owned and released on every path.
#include "runtime/array.h"

#include <mutex>

#include "ffi_library.h"
#include "runtime/failure.h"

namespace weft {
namespace {

// libtvm_ffi's own constructor of arrays, which is never unregistered.
TVMFFIObjectHandle array_constructor() {
  static TVMFFIObjectHandle constructor = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    static constexpr char kName[] = "ffi.Array";
    const TVMFFIByteArray name{kName, sizeof(kName) - 1};
    if (ffi().function_get_global(&name, &constructor) != 0) constructor = nullptr;
  });
  return constructor;
}

}  // namespace

void release_values(const TVMFFIAny* values, int64_t count) {
  for (int64_t index = 0; index < count; ++index) {
    if (values[index].type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(values[index].v_obj);
  }
}

int32_t make_array(const TVMFFIAny* values, int64_t count, TVMFFIAny* result) {
  TVMFFIObjectHandle constructor = array_constructor();
  int32_t code = -1;
  if (constructor == nullptr) {
    raise_error("RuntimeError", "libtvm_ffi has no function ffi.Array, which returned tuples need");
  } else {
    *result = {};
    code =
        ffi().function_call(constructor, const_cast<TVMFFIAny*>(values), static_cast<int32_t>(count), result);
  }
  release_values(values, count);
  return code == 0 ? 0 : -1;
}

int32_t return_argument(const weft_failure_site* site, const TVMFFIAny* argument, TVMFFIAny* result) {
  // A DLTensor* is borrowed for the call, so it cannot outlive it.
  if (argument->type_index < kTVMFFIStaticObjectBegin) return fail_any(site, argument);
  ffi().object_inc_ref(argument->v_obj);
  *result = *argument;
  return 0;
}

}  // namespace weft
