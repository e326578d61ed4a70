// SPDX-License-Identifier: Apache-2.0
//
// The handlers that XLA calls for weft's functions, on the CPU and on a GPU.
#ifndef WEFT_XLA_HANDLER_H_
#define WEFT_XLA_HANDLER_H_

#include "xla/call_frame.h"

namespace weft::xla {

Error* call_on_cpu(CallFrame* frame) noexcept;
Error* call_on_cuda(CallFrame* frame) noexcept;

}  // namespace weft::xla

#endif  // WEFT_XLA_HANDLER_H_
