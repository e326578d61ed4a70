// SPDX-License-Identifier: Apache-2.0
//
// Which type indices are registered. libtvm_ffi can only be asked for registered ones, but lists all keys;
// what was found once stays registered.
#include <mutex>
#include <vector>

#include "ffi_library.h"

namespace weft {

FfiLibrary g_ffi_library;

namespace {

std::mutex g_mutex;
std::vector<bool> g_registered;  // by index; guarded by the mutex

bool is_known(int32_t index) {
  return static_cast<size_t>(index) < g_registered.size() && g_registered[static_cast<size_t>(index)];
}

void note_key(const TVMFFIByteArray& key) {
  // -2, as the parent, asks without registering anything.
  const int32_t index = ffi().type_get_or_alloc_index(&key, -1, 0, 0, 0, -2);
  if (index < 0) return;
  const auto place = static_cast<size_t>(index);
  if (place >= g_registered.size()) g_registered.resize(place + 1);
  g_registered[place] = true;
}

// Strings of up to seven bytes are stored inline.
TVMFFIByteArray text_of(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFISmallStr) return {value.v_bytes, value.small_str_len};
  return *reinterpret_cast<const TVMFFIByteArray*>(value.v_obj + 1);
}

// What libtvm_ffi has registered by now. An error is kept for the next caller.
void note_all_keys() {
  constexpr char kName[] = "ffi.GetRegisteredTypeKeys";
  const TVMFFIByteArray name{kName, sizeof(kName) - 1};
  TVMFFIObjectHandle function = nullptr;
  if (ffi().function_get_global(&name, &function) != 0 || function == nullptr) return;
  TVMFFIAny keys = {};
  const int failed = ffi().function_call(function, nullptr, 0, &keys);
  ffi().object_dec_ref(function);
  if (failed != 0) return;
  const auto* sequence = reinterpret_cast<const TVMFFISeqCell*>(keys.v_obj + 1);
  const auto* elements = static_cast<const TVMFFIAny*>(sequence->data);
  for (int64_t position = 0; position < sequence->size; ++position) note_key(text_of(elements[position]));
  ffi().object_dec_ref(keys.v_obj);
}

}  // namespace

const TVMFFITypeInfo* find_type_info(int32_t type_index) {
  if (type_index < 0) return nullptr;
  std::lock_guard<std::mutex> held(g_mutex);
  if (!is_known(type_index)) note_all_keys();
  return is_known(type_index) ? ffi().get_type_info(type_index) : nullptr;
}

}  // namespace weft
