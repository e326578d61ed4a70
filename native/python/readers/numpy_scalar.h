// SPDX-License-Identifier: Apache-2.0
//
// NumPy scalars: numbers with their own dtype.
#ifndef WEFT_PYTHON_NUMPY_SCALAR_H_
#define WEFT_PYTHON_NUMPY_SCALAR_H_

#include "python/values/type_table.h"

namespace weft {

// Classifies a subclass of numpy.generic; leaves Kind::kUnknown for those that are not real numbers.
void resolve_numpy_scalar(TypeEntry* entry);

int encode_numpy_scalar(PyObject* object, const TypeEntry& entry, Scratch& scratch, TVMFFIAny* value);

}  // namespace weft

#endif  // WEFT_PYTHON_NUMPY_SCALAR_H_
