// SPDX-License-Identifier: Apache-2.0
//
// Consumers of DLPack that abort the process on strides that DLPack allows: torch, on negative ones.
#ifndef WEFT_PYTHON_DLPACK_CONSUMER_H_
#define WEFT_PYTHON_DLPACK_CONSUMER_H_

#include "python/common.h"

namespace weft {

// Whether a stride that reaches elements is negative.
bool runs_backward(const DLTensor& tensor);

// The TypeError for such a tensor. -1.
int refuse_backward();

// Checks an export without a copy: a tensor that runs backward is neither for torch, which is found among the
// callers, nor for a capsule whose taker is unknown. 0, or -1 with TypeError.
//
// is_bare: whether the call named no stream, device or copy, as one by hand does.
int check_consumer(const DLTensor& tensor, bool versioned, bool is_bare);

}  // namespace weft

#endif  // WEFT_PYTHON_DLPACK_CONSUMER_H_
