// SPDX-License-Identifier: Apache-2.0
//
// weft._native.OwnedAny and AnyView: an owned and a borrowed FFI value.
#ifndef WEFT_PYTHON_ANY_H_
#define WEFT_PYTHON_ANY_H_

#include "python/common.h"

namespace weft {

PyTypeObject* any_type();
PyTypeObject* any_view_type();

// The value of an Any or AnyView, borrowed; nullptr with ValueError if it was moved from or its loan has
// ended.
const TVMFFIAny* value_of_any(PyObject* object);

// A view of a callback's argument, valid until end_any_view.
PyObject* lend_any_view(const TVMFFIAny* value);
void end_any_view(PyObject* view);

}  // namespace weft

#endif  // WEFT_PYTHON_ANY_H_
