// SPDX-License-Identifier: Apache-2.0
//
// libtvm_ffi as a table of function pointers, opened with dlopen when it is first needed. One macro lists the
// functions; the signatures come from the installed package's own header.
#ifndef WEFT_FFI_LIBRARY_H_
#define WEFT_FFI_LIBRARY_H_

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstddef>
#include <string>

namespace weft {

#define WEFT_FFI_FUNCTIONS(ROW)                                           \
  ROW(get_version, TVMFFIGetVersion)                                      \
  ROW(object_inc_ref, TVMFFIObjectIncRef)                                 \
  ROW(object_dec_ref, TVMFFIObjectDecRef)                                 \
  ROW(object_create_opaque, TVMFFIObjectCreateOpaque)                     \
  ROW(type_get_or_alloc_index, TVMFFITypeGetOrAllocIndex)                 \
  ROW(get_type_info, TVMFFIGetTypeInfo)                                   \
  ROW(get_type_attr_column, TVMFFIGetTypeAttrColumn)                      \
  ROW(function_create, TVMFFIFunctionCreate)                              \
  ROW(function_get_global, TVMFFIFunctionGetGlobal)                       \
  ROW(function_set_global, TVMFFIFunctionSetGlobal)                       \
  ROW(function_call, TVMFFIFunctionCall)                                  \
  ROW(any_view_to_owned_any, TVMFFIAnyViewToOwnedAny)                     \
  ROW(error_move_from_raised, TVMFFIErrorMoveFromRaised)                  \
  ROW(error_set_raised, TVMFFIErrorSetRaised)                             \
  ROW(error_create, TVMFFIErrorCreate)                                    \
  ROW(error_create_with_cause, TVMFFIErrorCreateWithCauseAndExtraContext) \
  ROW(tensor_from_dlpack, TVMFFITensorFromDLPack)                         \
  ROW(tensor_from_dlpack_versioned, TVMFFITensorFromDLPackVersioned)      \
  ROW(tensor_to_dlpack, TVMFFITensorToDLPack)                             \
  ROW(tensor_to_dlpack_versioned, TVMFFITensorToDLPackVersioned)          \
  ROW(string_from_byte_array, TVMFFIStringFromByteArray)                  \
  ROW(bytes_from_byte_array, TVMFFIBytesFromByteArray)                    \
  ROW(big_int_from_byte_array, TVMFFIBigIntFromByteArray)                 \
  ROW(big_int_content, TVMFFIBigIntGetContentByteArray)                   \
  ROW(data_type_from_string, TVMFFIDataTypeFromString)                    \
  ROW(data_type_to_string, TVMFFIDataTypeToString)                        \
  ROW(backtrace, TVMFFIBacktrace)                                         \
  ROW(env_set_stream, TVMFFIEnvSetStream)                                 \
  ROW(env_get_stream, TVMFFIEnvGetStream)                                 \
  ROW(env_set_allocator, TVMFFIEnvSetDLPackManagedTensorAllocator)        \
  ROW(env_get_allocator, TVMFFIEnvGetDLPackManagedTensorAllocator)        \
  ROW(env_tensor_alloc, TVMFFIEnvTensorAlloc)                             \
  ROW(env_register_c_api, TVMFFIEnvRegisterCAPI)

struct FfiLibrary {
  bool is_open = false;
#define WEFT_ROW(member, symbol) decltype(&::symbol) member = nullptr;
  WEFT_FFI_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
};

// Written once by open_ffi_library, then read-only, never closed. Code loaded through the extension finds it
// open.
extern FfiLibrary g_ffi_library;
inline const FfiLibrary& ffi() { return g_ffi_library; }

// The type of an index, or nullptr for an unregistered one, for which libtvm_ffi itself would end the
// process. Thread-safe.
const TVMFFITypeInfo* find_type_info(int32_t type_index);

// Opens libtvm_ffi at `path` and fills the table. Returns an empty text, or why it cannot be used; does
// nothing after success. The caller holds the GIL.
std::string open_ffi_library(const char* path);

}  // namespace weft

#endif  // WEFT_FFI_LIBRARY_H_
