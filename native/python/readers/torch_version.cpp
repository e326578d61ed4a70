// SPDX-License-Identifier: Apache-2.0
//
// Writes into torch's tensors: through the shim in nanoseconds, else through Python.
#include "python/readers/torch_version.h"

#include "python/readers/readers.h"

namespace weft {
namespace {

// `function(argument)` of a module that torch has imported, or without one; -1 with an exception.
int asked(const char* module, const char* name, PyObject* argument) {
  Reference function(imported_attribute(module, name));
  Reference value(!function             ? nullptr
                  : argument == nullptr ? PyObject_CallNoArgs(function.get())
                                        : PyObject_CallOneArg(function.get(), argument));
  return value ? PyObject_IsTrue(value.get()) : -1;
}

// Below autograd, in the implementation of an operator, a write goes to the operator's declared argument.
bool is_below_autograd() {
  Reference keys(imported_attribute("torch._C", "DispatchKey"));
  Reference key(keys ? PyObject_GetAttrString(keys.get(), "AutogradFunctionality") : nullptr);
  const int excluded = key ? asked("torch._C", "_dispatch_tls_is_dispatch_key_excluded", key.get()) : -1;
  if (excluded < 0) PyErr_Clear();
  return excluded > 0;
}

bool is_followed_by_python(PyObject* tensor) {
  Reference requires_grad(PyObject_GetAttrString(tensor, "requires_grad"));
  const int answer = requires_grad ? PyObject_IsTrue(requires_grad.get()) : -1;
  const int followed = answer > 0 ? asked("torch", "is_grad_enabled", nullptr) : answer;
  if (followed < 0) PyErr_Clear();
  return followed > 0;
}

int bump_by_python(PyObject* tensor) {
  Reference bump(imported_attribute("torch.autograd.graph", "increment_version"));
  if (!bump) {  // a torch without it
    PyErr_Clear();
    return 0;
  }
  Reference done(PyObject_CallOneArg(bump.get(), tensor));
  return done ? 0 : -1;
}

WEFT_COLD int refuse_followed(bool counts) {
  if (is_below_autograd()) return 0;
  return refuse(PyExc_ValueError,
                "expected a tensor whose derivatives torch does not record, because %s, "
                "received one that requires a gradient; call it under torch.no_grad(), pass tensor.detach(), "
                "or call it in the forward() of a torch.autograd.Function",
                counts ? "a kernel writes to it" : "the result is a new tensor without a derivative");
}

// Whether a torch.jit.trace, or a make_fx of real tensors, records torch's operators and nothing else.
WEFT_COLD bool is_traced() {
  Reference tracing(imported_attribute("torch._C", "_get_tracing_state"));
  Reference state(tracing ? PyObject_CallNoArgs(tracing.get()) : nullptr);
  bool traced = state && state.get() != Py_None;
  if (!traced) {
    PyErr_Clear();
    Reference proxy(imported_attribute("torch.fx.experimental.proxy_tensor", "get_proxy_mode"));
    Reference mode(proxy ? PyObject_CallNoArgs(proxy.get()) : nullptr);
    traced = mode && mode.get() != Py_None;
  }
  PyErr_Clear();
  return traced;
}

WEFT_COLD int refuse_traced() {
  return refuse(PyExc_ValueError,
                "expected a call that nothing traces, because torch.jit.trace and make_fx record torch's "
                "operators alone; make the function an operator by weft.torch.custom_op");
}

}  // namespace

int check_written(PyObject* tensor, const TypeEntry& entry, bool counts) {
  const bool shim = entry.read == read_torch;
  const bool traced = shim ? may_be_traced() : true;
  if (WEFT_UNLIKELY(traced) && is_traced()) return refuse_traced();
  const bool followed = shim ? is_followed(tensor) : is_followed_by_python(tensor);
  return WEFT_LIKELY(!followed) ? 0 : refuse_followed(counts);
}

int count_writes(const WrittenTensor* first) {
  for (const WrittenTensor* written = first; written != nullptr; written = written->next) {
    if (!written->counts) continue;
    if (WEFT_LIKELY(written->entry->read == read_torch)) {
      bump_version(written->tensor);
    } else if (bump_by_python(written->tensor) != 0) {
      return -1;
    }
  }
  return 0;
}

}  // namespace weft
