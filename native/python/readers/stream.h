// SPDX-License-Identifier: Apache-2.0
//
// The stream of a call, from the array libraries and the FFI environment.
#ifndef WEFT_PYTHON_STREAM_H_
#define WEFT_PYTHON_STREAM_H_

#include "python/values/type_table.h"

namespace weft {

// The current stream of the library that `object` comes from. `*found` is false if the library has none, and
// the environment's stream stays. Returns 0, or -1 with an exception set.
int current_stream(PyObject* object, const TypeEntry& entry, DLDevice device, void** stream, bool* found);

// A stream argument as an opaque pointer, or none for None: objects with __cuda_stream__, torch's and CuPy's
// streams, and integers. Returns 0, or -1 with an exception set.
int encode_stream(PyObject* object, TVMFFIAny* value);

}  // namespace weft

#endif  // WEFT_PYTHON_STREAM_H_
