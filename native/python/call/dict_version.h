// SPDX-License-Identifier: Apache-2.0
//
// A number that differs once items of a dictionary have changed: CPython's own up to 3.11, one that a
// dictionary watcher counts from 3.12 on.
#ifndef WEFT_PYTHON_DICT_VERSION_H_
#define WEFT_PYTHON_DICT_VERSION_H_

#include "python/common.h"

namespace weft {

// Where the dictionary's number is, for changes of the item `name` at least; nullptr without an exception if
// there is none. The address is valid until as many calls of `unwatch_dict`, and while the dictionary lives,
// which the caller keeps.
const uint64_t* watch_dict(PyObject* dict, PyObject* name);

void unwatch_dict(PyObject* dict);

}  // namespace weft

#endif  // WEFT_PYTHON_DICT_VERSION_H_
