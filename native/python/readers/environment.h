// SPDX-License-Identifier: Apache-2.0
//
// Sets up libtvm_ffi's environment: how callees allocate tensors and check for signals.
#ifndef WEFT_PYTHON_ENVIRONMENT_H_
#define WEFT_PYTHON_ENVIRONMENT_H_

namespace weft {

// Called once, after the library is opened, with the GIL held.
void prepare_environment();

}  // namespace weft

#endif  // WEFT_PYTHON_ENVIRONMENT_H_
