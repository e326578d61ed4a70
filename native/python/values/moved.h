// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Moved: an object whose reference is offered to the callee of one call.
#ifndef WEFT_PYTHON_MOVED_H_
#define WEFT_PYTHON_MOVED_H_

#include "python/values/encode/encode.h"

namespace weft {

PyTypeObject* moved_type();

// Takes the reference out of its object, for a callee to take over; if it does not, the object gets it back
// when the call ends. 0, or -1 with an exception.
int encode_moved(PyObject* moved, Scratch& scratch, TVMFFIAny* value);

}  // namespace weft

#endif  // WEFT_PYTHON_MOVED_H_
