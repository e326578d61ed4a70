// SPDX-License-Identifier: Apache-2.0
//
// Places in a program's state, such as a global or a closure's cell, that a compilation has read.
#ifndef WEFT_PYTHON_UNCHANGED_H_
#define WEFT_PYTHON_UNCHANGED_H_

#include "python/common.h"

namespace weft {

// A place is a tuple: its kind, its owner, a name (None for a cell and a function), and the value found
// there: one object, or nothing where nothing was; for a function its code and both kinds of defaults.
enum PlaceKind : long { kItem = 0, kCell = 1, kFunction = 2, kAttribute = 3, kMember = 4 };

// -1 with TypeError for any other object.
long kind_of_place(PyObject* place);

// Whether it holds the very object that it held: 1, 0, or -1 with an exception.
int is_place_same(PyObject* place);

}  // namespace weft

#endif  // WEFT_PYTHON_UNCHANGED_H_
