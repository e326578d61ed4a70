// SPDX-License-Identifier: Apache-2.0
//
// The driver's part of the extension.
#include "driver/python/python_module.h"

namespace weft {

int add_driver(PyObject* module) {
  using AddFunction = int (*)(PyObject* module);
  constexpr AddFunction kParts[] = {
      add_driver_library, add_device_program, add_binary,         add_launch, add_device,
      add_memory,         add_tensor_map,     add_launch_scratch, add_event,  add_copy};
  for (AddFunction add : kParts) {
    if (add(module) != 0) return -1;
  }
  return 0;
}

}  // namespace weft
