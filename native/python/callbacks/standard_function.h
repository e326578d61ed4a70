// SPDX-License-Identifier: Apache-2.0
//
// libtvm_ffi's registered functions that make and read containers: the ABI does not specify their layout.
#ifndef WEFT_PYTHON_STANDARD_FUNCTION_H_
#define WEFT_PYTHON_STANDARD_FUNCTION_H_

#include "python/common.h"

namespace weft {

#define WEFT_STANDARD_FUNCTIONS(ROW)             \
  ROW(kArray, "ffi.Array")                       \
  ROW(kMap, "ffi.Map")                           \
  ROW(kShape, "ffi.Shape")                       \
  ROW(kMapSize, "ffi.MapSize")                   \
  ROW(kMapIterator, "ffi.MapForwardIterFunctor") \
  ROW(kDictSize, "ffi.DictSize")                 \
  ROW(kDictIterator, "ffi.DictForwardIterFunctor")

enum class Standard : uint8_t {
#define WEFT_ROW(name, text) name,
  WEFT_STANDARD_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
      kCount
};

// Whether a function is one of libtvm_ffi's that store their arguments in a container or object, and whether
// that is shared from the start. An ffi.Array or ffi.Map is searched whenever it is passed on; others can
// reach a list, a dict or an object.
enum class Storing : uint8_t { kNot, kAlone, kShared };
Storing is_storing(const TVMFFIObject* function);

// Calls one of them. 0 with an owned result, or -1 with an exception.
int call_standard(Standard which, const TVMFFIAny* arguments, Py_ssize_t count, TVMFFIAny* result);

// The same for any FFI function.
int call_object(TVMFFIObject* function, const TVMFFIAny* arguments, Py_ssize_t count, TVMFFIAny* result);

}  // namespace weft

#endif  // WEFT_PYTHON_STANDARD_FUNCTION_H_
