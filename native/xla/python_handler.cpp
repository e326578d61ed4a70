// SPDX-License-Identifier: Apache-2.0
//
// XLA_HANDLERS: the handlers by JAX's name of a platform, as capsules that it registers.
#include "module.h"
#include "python/common.h"
#include "xla/handler.h"

namespace weft {

int add_xla_handlers(PyObject* module) {
  Reference handlers(PyDict_New());
  if (!handlers) return -1;
  const struct {
    const char* platform;
    xla::Error* (*handler)(xla::CallFrame*) noexcept;
  } kHandlers[] = {{"cpu", xla::call_on_cpu}, {"CUDA", xla::call_on_cuda}};
  for (const auto& row : kHandlers) {
    Reference capsule(
        PyCapsule_New(reinterpret_cast<void*>(row.handler), "xla._CUSTOM_CALL_TARGET", nullptr));
    if (!capsule || PyDict_SetItemString(handlers.get(), row.platform, capsule.get()) != 0) return -1;
  }
  return PyModule_AddObjectRef(module, "XLA_HANDLERS", handlers.get());
}

}  // namespace weft
