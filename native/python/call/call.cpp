// SPDX-License-Identifier: Apache-2.0
//
// One call: bind, encode, set the stream, call, restore, convert. The fast path allocates nothing.
#include <cstring>

#include "ffi_library.h"
#include "python/call/call.h"
#include "python/call/function.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"
#include "python/gil.h"
#include "python/results/result.h"
#include "python/values/encode/encode.h"

namespace weft {

thread_local const CallContext* t_call __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

inline const TypeEntry* entry_of(Function* function, Py_ssize_t index, PyObject* argument) {
  PyTypeObject* type = Py_TYPE(argument);
  if (WEFT_LIKELY(index < Function::kCachedPositions)) {
    Function::CachedType& cached = function->cached_types[index];
    if (WEFT_LIKELY(cached.type == type)) return cached.entry;
    const TypeEntry* entry = find_type(argument);
    if (entry != nullptr && entry->settled) cached = {type, entry};
    return entry;
  }
  return find_type(argument);
}

}  // namespace

WEFT_COLD void blame_argument(const Function* function, Py_ssize_t index, const CallFrame& frame) {
  CallPlan* plan = function->plan;
  if (plan == nullptr) {
    Reference name(name_of_function(*function));
    if (name) name_argument(name.get(), index, nullptr, frame.failed_item);
    return;
  }
  PyObject* parameter = PyTuple_GET_ITEM(plan->parameters, index);
  if (frame.failed_item == nullptr) return name_argument(plan->signature, index, parameter);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Reference path(PyUnicode_Concat(parameter, frame.failed_item));
  if (!path) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  name_argument(plan->signature, index, path ? path.get() : parameter);
}

namespace {

// Passes a refused object of an unknown class to a compiled function's wrapper, which words the error.
// Returns whether it did.
WEFT_COLD bool leave_to_wrapper(const Function* function, PyObject* argument, CallFrame& frame,
                                TVMFFIAny* value) {
  if (frame.unknown != argument || function->details == nullptr || function->any_value) return false;
  PyErr_Clear();
  return encode_opaque(argument, frame, value) == 0;
}

inline int encode_all(Function* function, PyObject* const* arguments, Py_ssize_t count, CallFrame& frame,
                      TVMFFIAny* values) {
  const uint8_t* all_flags = function->argument_flags;
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* argument = arguments[index];
    TVMFFIAny* value = &values[index];
    const TypeEntry* entry = entry_of(function, index, argument);
    uint8_t flags = all_flags != nullptr ? all_flags[index] : uint8_t{0};
    if (WEFT_LIKELY(entry != nullptr)) {
      if (entry->kind == Kind::kInt && is_small_int(argument) && (flags & kArgumentStream) == 0) {
        value->type_index = kTVMFFIInt;
        value->zero_padding = 0;
        value->v_int64 = small_int_value(argument);
        continue;
      }
      if (WEFT_UNLIKELY((flags & kArgumentItems) != 0)) {
        frame.items = PyTuple_GET_ITEM(function->plan->items, index);
      }
      bool is_tensor = entry->kind == Kind::kTensor && (flags & kArgumentStream) == 0;
      int failed = WEFT_LIKELY(is_tensor) ? encode_tensor(argument, *entry, flags, frame, value)
                                          : encode_argument(argument, *entry, flags, frame, value);
      if (WEFT_LIKELY(failed == 0) || leave_to_wrapper(function, argument, frame, value)) continue;
    }
    blame_argument(function, index, frame);
    return -1;
  }
  return 0;
}

// Everything set for the callee, and restored on every path. A callee may call Python again.
inline int call_native(const Function* function, CallFrame& frame, const TVMFFIAny* values, Py_ssize_t count,
                       TVMFFIAny* result) {
  void* previous_stream = nullptr;
  bool has_stream = frame.stream_device_type != 0;
  if (has_stream) {
    ffi().env_set_stream(frame.stream_device_type, frame.stream_device, frame.stream, &previous_stream);
  }
  frame.context.callee = function->handle;
  const CallContext* outer = t_call;
  t_call = &frame.context;
  int code;
  if (function->release_gil) {
    frame.context.holds_gil = false;
    PyThreadState* thread = PyEval_SaveThread();
    code = function->safe_call(function->handle, values, static_cast<int32_t>(count), result);
    restore_thread(thread);
  } else {
    code = function->safe_call(function->handle, values, static_cast<int32_t>(count), result);
  }
  t_call = outer;
  if (has_stream && previous_stream != frame.stream) {
    ffi().env_set_stream(frame.stream_device_type, frame.stream_device, previous_stream, nullptr);
  }
  return code;
}

// The argument that a callee returned, compared by handle, not by a tensor's data; nullptr for a new object.
inline PyObject* same_argument(const Function* function, const TVMFFIAny& result, PyObject* const* arguments,
                               const TVMFFIAny* values, Py_ssize_t count) {
  for (Py_ssize_t index = 0; index < count; ++index) {
    if (values[index].v_obj != result.v_obj || values[index].type_index != result.type_index) continue;
    if (result.type_index == kTVMFFITensor && !fits(arguments[index], function->policy)) return nullptr;
    ffi().object_dec_ref(result.v_obj);
    return Py_NewRef(arguments[index]);
  }
  return nullptr;
}

inline PyObject* convert_result(const Function* function, const CallFrame& frame, const TVMFFIAny& result,
                                PyObject* const* arguments, const TVMFFIAny* values, Py_ssize_t count) {
  if (result.type_index >= kTVMFFIStaticObjectBegin) {
    PyObject* same = same_argument(function, result, arguments, values, count);
    if (same != nullptr) return same;
  }
  ResultPolicy policy = function->policy;
  if (policy.tensors == nullptr) policy.tensors = frame.context.tensors;
  PyObject* converted = result_to_python(result, policy);
  const bool restores = function->plan != nullptr && function->plan->result != nullptr;
  if (WEFT_LIKELY(!restores) || policy.objects != ObjectMode::kValues) return converted;
  Reference owned(converted);
  return owned ? restore_result(owned.get(), function->plan->result) : nullptr;
}

inline PyObject* finish_call(const Function* function, CallFrame& frame, PyObject* const* arguments,
                             const TVMFFIAny* values, Py_ssize_t count) {
  TVMFFIAny result;
  result.type_index = kTVMFFINone;
  result.zero_padding = 0;
  result.v_int64 = 0;
  int code = call_native(function, frame, values, count, &result);
  if (WEFT_UNLIKELY(code != 0)) return raise_ffi_error(code);
  if (WEFT_LIKELY(result.type_index == kTVMFFINone)) Py_RETURN_NONE;
  return convert_result(function, frame, result, arguments, values, count);
}

inline PyObject* call_bound(Function* function, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kInlineValues = 12;
  drain_deferred();
  CallFrame frame;
  frame.owned_tensors = function->owned_tensors;
  frame.any_value = function->any_value;
  frame.writer = function->writer;
  frame.kept = function->keeps;
  TVMFFIAny inline_values[kInlineValues];
  TVMFFIAny* values = inline_values;
  if (WEFT_UNLIKELY(count > kInlineValues)) {
    values = frame.scratch.take_array<TVMFFIAny>(static_cast<size_t>(count));
    if (values == nullptr) return nullptr;
  }
  if (WEFT_UNLIKELY(encode_all(function, arguments, count, frame, values) != 0)) return nullptr;
  if (frame.written != nullptr && WEFT_UNLIKELY(count_writes(frame.written) != 0)) return nullptr;
  return finish_call(function, frame, arguments, values, count);
}

// Keywords, defaults, or a wrong number of arguments.
__attribute__((noinline)) PyObject* call_with_binding(Function* function, PyObject* const* arguments,
                                                      Py_ssize_t count, PyObject* keywords) {
  constexpr Py_ssize_t kInlineArguments = 32;
  if (function->plan == nullptr) {
    PyErr_SetString(PyExc_TypeError,
                    "this function's parameters have no names: it takes no keyword arguments");
    return nullptr;
  }
  const CallPlan& plan = *function->plan;
  PyObject* inline_bound[kInlineArguments];
  PyObject** bound = inline_bound;
  if (plan.count > kInlineArguments) {
    bound = static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * static_cast<size_t>(plan.count)));
    if (bound == nullptr) return PyErr_NoMemory();
  }
  PyObject* result = nullptr;
  if (bind_arguments(plan, arguments, count, keywords, bound) == 0) {
    result = call_bound(function, bound, plan.count);
  }
  if (bound != inline_bound) PyMem_Free(bound);
  return result;
}

}  // namespace

PyObject* call_in_order(Function* function, PyObject* const* arguments, Py_ssize_t count) {
  return call_bound(function, arguments, count);
}

PyObject* call_encoded(const Function* function, CallFrame& frame, PyObject* const* arguments,
                       const TVMFFIAny* values, Py_ssize_t count) {
  return finish_call(function, frame, arguments, values, count);
}

int check_encoded(const Function* function, const CallFrame& frame, const TVMFFIAny* values,
                  Py_ssize_t count) {
  const CallContext* outer = t_call;
  t_call = &frame.context;
  // The complement of the count asks a compiled function's wrapper to check only.
  TVMFFIAny unused{};
  const int code = function->safe_call(function->handle, values, ~static_cast<int32_t>(count), &unused);
  t_call = outer;
  if (WEFT_LIKELY(code == 0)) return 0;
  raise_ffi_error(code);
  return -1;
}

PyObject* call_function(PyObject* callable, PyObject* const* arguments, size_t count_and_flags,
                        PyObject* keywords) {
  Function* function = reinterpret_cast<Function*>(callable);
  Py_ssize_t count = PyVectorcall_NARGS(count_and_flags);
  bool named = keywords != nullptr && PyTuple_GET_SIZE(keywords) != 0;
  if (WEFT_LIKELY(!named && (count == function->direct_count || function->direct_count == kAnyCount))) {
    return call_bound(function, arguments, count);
  }
  return call_with_binding(function, arguments, count, keywords);
}

}  // namespace weft
