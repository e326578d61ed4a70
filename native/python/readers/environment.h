// SPDX-License-Identifier: Apache-2.0
//
// What libtvm_ffi's environment is told by this process: how callees allocate tensors and ask for signals.
#ifndef WEFT_PYTHON_ENVIRONMENT_H_
#define WEFT_PYTHON_ENVIRONMENT_H_

namespace weft {

// Called once, when the library has been opened, with the GIL held.
void prepare_environment();

}  // namespace weft

#endif  // WEFT_PYTHON_ENVIRONMENT_H_
