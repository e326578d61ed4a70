// SPDX-License-Identifier: Apache-2.0
//
// One callback: take the GIL, convert the arguments, call, convert the result, end the loans. The callable's
// exception becomes an FFI error that carries it.
#include "python/callbacks/callback.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "ffi_library.h"
#include "module.h"
#include "python/call/function.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"
#include "python/errors/foreign_error.h"
#include "python/gil.h"
#include "python/tensors/tensor_view.h"
#include "python/values/any.h"
#include "python/values/encode/encode.h"

namespace weft {
namespace {

// A function object of the ABI, followed by its target. `cpp_call` stays NULL: C++ exceptions must not
// pass through Python.
struct Callback {
  uint64_t allocator_words[2];  // libtvm_ffi's own allocator puts two words before an object
  TVMFFIObject object;
  TVMFFIFunctionCell cell;
  PyObject* callable;  // a reference, or nullptr once released
  CallbackOptions options;
  int32_t functions;  // Python's Function objects over it; under the GIL
  Callback *previous, *next;
};
static_assert(offsetof(Callback, cell) == offsetof(Callback, object) + sizeof(TVMFFIObject),
              "a function object is a header and its cell");

Callback* callback_of(const void* object) {
  const char* start = static_cast<const char*>(object) - offsetof(Callback, object);
  return reinterpret_cast<Callback*>(const_cast<char*>(start));
}

// All callbacks, so that those held by foreign code at the end can be released. Any thread may delete one.
std::mutex g_list_mutex;
Callback* g_first = nullptr;

void link(Callback* callback) {
  std::lock_guard<std::mutex> guard(g_list_mutex);
  callback->next = g_first;
  if (g_first != nullptr) g_first->previous = callback;
  g_first = callback;
}

// Removes it from the list and takes out the callable, whose reference is then the caller's.
PyObject* unlink(Callback* callback) {
  std::lock_guard<std::mutex> guard(g_list_mutex);
  PyObject* callable = callback->callable;
  callback->callable = nullptr;
  if (callable == nullptr) return nullptr;
  if (callback->previous != nullptr) callback->previous->next = callback->next;
  if (callback->next != nullptr) callback->next->previous = callback->previous;
  if (g_first == callback) g_first = callback->next;
  return callable;
}

// Whether a single Python Function holds the only reference. The count leaves one only under the GIL: passing
// a function on takes a reference.
bool is_pythons(const Callback& callback) {
  const uint64_t counts = __atomic_load_n(&callback.object.combined_ref_count, __ATOMIC_ACQUIRE);
  return static_cast<uint32_t>(counts) == 1 && callback.functions == 1;
}

// A callback's arguments as Python objects. The first slot is free for a bound method's `self`, which
// vectorcall may put there.
class Arguments {
 public:
  Arguments() {}
  ~Arguments() {
    for (Py_ssize_t index = 0; index < filled_; ++index) drop(objects_[index + 1]);
    if (objects_ != inline_) PyMem_Free(objects_);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  int reserve(Py_ssize_t count) {
    if (WEFT_LIKELY(count < kInline)) return 0;
    auto bytes = sizeof(PyObject*) * static_cast<size_t>(count + 1);
    objects_ = static_cast<PyObject**>(PyMem_Malloc(bytes));
    if (objects_ != nullptr) return 0;
    objects_ = inline_;
    PyErr_NoMemory();
    return -1;
  }
  void push(PyObject* object) { objects_[++filled_] = object; }
  PyObject** data() { return objects_ + 1; }
  Py_ssize_t count() const { return filled_; }

 private:
  static constexpr Py_ssize_t kInline = 16;
  PyObject* inline_[kInline];
  PyObject** objects_ = inline_;
  Py_ssize_t filled_ = 0;
};

// The library of the caller's tensors, if the callback itself names none.
ResultPolicy policy_of(const Callback& callback) {
  ResultPolicy policy = callback.options.policy;
  if (policy.tensors == nullptr && t_call != nullptr) policy.tensors = t_call->tensors;
  return policy;
}

// A DLTensor* is lent for the callback: a view, or an array made from the view, which counts as its export.
PyObject* lent_tensor(const TVMFFIAny& value, const ResultPolicy& policy, PyObject** lent) {
  const auto* tensor = static_cast<const DLTensor*>(value.v_ptr);
  Reference view(lend_tensor_view(tensor));
  if (!view) return nullptr;
  *lent = Py_NewRef(view.get());
  bool as_array = policy.tensors != nullptr && policy.tensors->kind == Kind::kTensor;
  return as_array ? import_exporter(view.get(), *tensor, *policy.tensors) : view.release();
}

// The loans of one callback, in argument order. Without loans nothing is allocated.
class Loans {
 public:
  explicit Loans(int32_t most) : most_(most) {}
  ~Loans() { PyMem_Free(views_); }
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;

  // Takes over the reference. 0, or -1 with MemoryError.
  int add(PyObject* view) {
    if (views_ == nullptr) {
      views_ = static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * static_cast<size_t>(most_)));
    }
    if (views_ == nullptr) {
      Py_DECREF(view);
      PyErr_NoMemory();
      return -1;
    }
    views_[count_++] = view;
    return 0;
  }
  int count() const { return count_; }
  PyObject* const* begin() const { return views_; }
  PyObject* const* end() const { return views_ + count_; }

 private:
  PyObject** views_ = nullptr;
  int32_t count_ = 0;
  int32_t most_;
};

int convert(const TVMFFIAny& value, const ResultPolicy& policy, bool as_view, Loans& loans,
            Arguments& arguments) {
  PyObject* object;
  PyObject* lent = nullptr;
  if (WEFT_UNLIKELY(as_view)) {
    object = lend_any_view(&value);
    lent = Py_XNewRef(object);
  } else if (WEFT_UNLIKELY(value.type_index == kTVMFFIDLTensorPtr)) {
    object = lent_tensor(value, policy, &lent);
  } else {
    object = view_to_python(value, policy);
  }
  if (object != nullptr) arguments.push(object);
  if (lent != nullptr && loans.add(lent) != 0) return -1;
  return object == nullptr ? -1 : 0;
}

// Ends every loan. Returns 0, or -1 with an exception if an array made from a lent tensor is still alive: it
// would read memory that its owner is about to reclaim.
int end_loans(const Loans& loans, bool as_views) {
  int kept = 0;
  for (PyObject* view : loans) {
    if (as_views) {
      end_any_view(view);
    } else if (end_tensor_view(view) > 0) {
      ++kept;
    }
    Py_DECREF(view);
  }
  if (WEFT_LIKELY(kept == 0) || PyErr_Occurred()) return 0;
  return refuse(PyExc_RuntimeError,
                "a callback kept an array over a tensor that was only lent to it; copy the array to keep it");
}

void drop_value(TVMFFIAny* value) {
  if (value->type_index >= kTVMFFIStaticObjectBegin) ffi().object_dec_ref(value->v_obj);
  *value = {};
}

// Results that return to Python directly keep their read-only mark; other callers cannot see it.
int encode_result(PyObject* object, bool direct, TVMFFIAny* result) {
  if (object == Py_None) {
    *result = {};
    return 0;
  }
  if (PyLong_CheckExact(object) && is_small_int(object)) {
    *result = {kTVMFFIInt, {0}, {small_int_value(object)}};
    return 0;
  }
  return encode_owned(object, direct ? Writer::kNobody : Writer::kHolders, result);
}

// Arrays and maps arrive as copies, which the callable may have changed.
bool is_copied(int32_t type_index, ObjectMode mode) {
  return mode == ObjectMode::kValues && (type_index == kTVMFFIArray || type_index == kTVMFFIMap);
}

// A callable that returns an argument returns the same object.
bool return_argument(PyObject* returned, Arguments& arguments, const TVMFFIAny* values, ObjectMode mode,
                     TVMFFIAny* result) {
  for (Py_ssize_t index = 0; index < arguments.count(); ++index) {
    const TVMFFIAny& value = values[index];
    if (arguments.data()[index] != returned || value.type_index < kTVMFFIStaticObjectBegin) continue;
    if (is_copied(value.type_index, mode)) return false;
    ffi().object_inc_ref(value.v_obj);
    *result = value;
    return true;
  }
  return false;
}

int call_with_gil(const Callback& callback, const TVMFFIAny* values, int32_t count, TVMFFIAny* result) {
  drain_deferred();
  const ResultPolicy policy = policy_of(callback);
  const bool views = callback.options.views;
  const bool direct = t_call != nullptr && t_call->callee == &callback.object;
  // The caller may drop the function itself while it runs.
  Reference callable(Py_XNewRef(callback.callable));
  if (WEFT_UNLIKELY(!callable)) {
    return raise_text_into_ffi(
        "RuntimeError",
        "a Python callback was called after it had been released: at the interpreter's "
        "end, by weft.ffi.release_callbacks, or by the garbage collector");
  }
  Loans loans(count);
  int failed;
  {
    Arguments arguments;
    failed = arguments.reserve(count);
    for (int32_t index = 0; index < count && failed == 0; ++index) {
      failed = convert(values[index], policy, views, loans, arguments);
    }
    if (failed == 0) {
      Reference returned(PyObject_Vectorcall(
          callable.get(), arguments.data(),
          static_cast<size_t>(arguments.count()) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
      bool same =
          returned && !views && return_argument(returned.get(), arguments, values, policy.objects, result);
      if (!same) failed = returned ? encode_result(returned.get(), direct, result) : -1;
    }
  }
  if (WEFT_UNLIKELY(loans.count() != 0) && end_loans(loans, views) != 0) {
    drop_value(result);
    failed = -1;
  }
  return failed == 0 ? 0 : raise_into_ffi();
}

int call_python(void* self, const TVMFFIAny* values, int32_t count, TVMFFIAny* result) {
  if (WEFT_UNLIKELY(!interpreter_is_usable())) {
    return raise_text_into_ffi("RuntimeError",
                               "a Python callback was called after the interpreter has ended");
  }
  HeldGil gil;
  // A pending exception of the caller is not the callback's.
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  const bool pending = PyErr_Occurred() != nullptr;
  if (WEFT_UNLIKELY(pending)) PyErr_Fetch(&type, &value, &traceback);
  TVMFFIAny unwanted{};  // the result of a caller that gives no place for it
  TVMFFIAny* place = WEFT_LIKELY(result != nullptr) ? result : &unwanted;
  const int code =
      or_wait_for_the_end([=] { return call_with_gil(*callback_of(self), values, count, place); });
  if (WEFT_UNLIKELY(result == nullptr) && code == 0) drop_value(&unwanted);
  if (WEFT_UNLIKELY(pending)) PyErr_Restore(type, value, traceback);
  return code;
}

// On any thread, with or without the GIL, even after the interpreter has ended.
void delete_callback(void* object, int flags) {
  Callback* callback = callback_of(object);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) drop_anywhere(unlink(callback));
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) std::free(callback);
}

PyObject* wrap_callable(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"callable", "tensor_type", "objects", "views", nullptr};
  PyObject *callable, *tensor_type = Py_None, *objects = Py_None;
  int views = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|OOp:wrap_callable", const_cast<char**>(kNames),
                                   &callable, &tensor_type, &objects, &views)) {
    return nullptr;
  }
  if (!PyCallable_Check(callable)) {
    PyErr_Format(PyExc_TypeError, "wrap_callable: expected a callable, received %s",
                 Py_TYPE(callable)->tp_name);
    return nullptr;
  }
  CallbackOptions options;
  options.views = views != 0;
  if (set_tensor_type(tensor_type, &options.policy) != 0) return nullptr;
  if (set_object_mode(objects, &options.policy) != 0 || require_library() != 0) return nullptr;
  TVMFFIObject* function = make_callback(callable, options);
  PyObject* made = function == nullptr ? nullptr : function_of_object(function);
  if (made != nullptr && PyFunction_Check(callable)) {
    PyObject* name = reinterpret_cast<PyFunctionObject*>(callable)->func_qualname;
    reinterpret_cast<Function*>(made)->label = Py_NewRef(name);
  }
  return made;
}

// With the list's lock held.
Callback* find_foreign() {
  Callback* found = g_first;
  while (found != nullptr && is_pythons(*found)) found = found->next;
  return found;
}

PyObject* has_foreign_callbacks(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> guard(g_list_mutex);
  return PyBool_FromLong(find_foreign() != nullptr);
}

PyObject* release_callbacks(PyObject*, PyObject*) {
  long released = 0;
  for (;;) {
    Callback* found = nullptr;
    {
      std::lock_guard<std::mutex> guard(g_list_mutex);
      found = find_foreign();
      if (found == nullptr) break;
      // Another thread may delete it as soon as the lock is free.
      ffi().object_inc_ref(&found->object);
    }
    drop(unlink(found));
    ffi().object_dec_ref(&found->object);
    ++released;
  }
  return PyLong_FromLong(released);
}

PyMethodDef kMethods[] = {
    {"has_foreign_callbacks", has_foreign_callbacks, METH_NOARGS,
     "has_foreign_callbacks() -> bool\n--\n\nWhether anything but Python's functions holds a "
     "callback."},
    {"release_callbacks", release_callbacks, METH_NOARGS,
     "release_callbacks() -> int\n--\n\nSee weft.ffi.release_callbacks."},
    {"wrap_callable", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(wrap_callable)),
     METH_VARARGS | METH_KEYWORDS,
     "wrap_callable(callable, tensor_type=None, objects=None, views=False) -> Function\n--\n\n"
     "An FFI function that calls the callable. Tensors arrive as `tensor_type`, else as the caller's array\n"
     "type; with `views`, all arguments arrive as AnyViews."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

TVMFFIObject* make_callback(PyObject* callable, const CallbackOptions& options) {
  auto* callback = static_cast<Callback*>(std::calloc(1, sizeof(Callback)));
  if (callback == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  callback->object.combined_ref_count = (uint64_t{1} << 32) | 1;  // one strong, and the weak one it implies
  callback->object.type_index = kTVMFFIFunction;
  callback->object.deleter = delete_callback;
  callback->cell.safe_call = call_python;
  callback->callable = Py_NewRef(callable);
  callback->options = options;
  link(callback);
  return &callback->object;
}

bool is_callback(const TVMFFIObject* function) { return function->deleter == delete_callback; }

void count_function(const TVMFFIObject* function, int32_t more) { callback_of(function)->functions += more; }

PyObject* callable_for_collector(const TVMFFIObject* function) {
  const Callback* callback = callback_of(function);
  return is_pythons(*callback) ? callback->callable : nullptr;
}

void clear_for_collector(const TVMFFIObject* function) {
  Callback* callback = callback_of(function);
  if (is_pythons(*callback)) drop(unlink(callback));
}

int add_callback(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
