// SPDX-License-Identifier: Apache-2.0
//
// Writes of a call into torch's tensors. Autograd counts the writes into a tensor, for it and its views
// together, and refuses a derivative that needs overwritten values; a kernel's writes are counted
// here.
#ifndef WEFT_PYTHON_TORCH_VERSION_H_
#define WEFT_PYTHON_TORCH_VERSION_H_

#include "python/values/type_table.h"

namespace weft {

// A tensor that the call writes into or makes tensors of, in the call's scratch. The tensor is borrowed from
// the call's arguments, or from an object that the scratch keeps until its end.
struct WrittenTensor {
  PyObject* tensor;
  const TypeEntry* entry;
  WrittenTensor* next;
  bool counts;  // false: it is only read, and new tensors are made of it
};

// read_torch.cpp: through the shim, for entries that it reads.
void bump_version(PyObject* tensor);
bool is_followed(PyObject* tensor);  // it requires a gradient, and derivatives are recorded
bool may_be_traced();                // torch.jit.trace, or a mode which may be that of make_fx

// Refuses a tensor whose derivatives autograd records, and a call inside of a trace: torch would go on as if
// nothing was written, or as if the new tensors were constants. 0, or -1 with ValueError.
int check_written(PyObject* tensor, const TypeEntry& entry, bool counts);

// Counts a write into each of these tensors. 0, or -1 with torch's exception.
int count_writes(const WrittenTensor* first);

}  // namespace weft

#endif  // WEFT_PYTHON_TORCH_VERSION_H_
