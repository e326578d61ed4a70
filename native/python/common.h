// SPDX-License-Identifier: Apache-2.0
//
// Basics of the marshaller: interned attribute names, and the few Python objects that live as
// long as the process.
#ifndef WEFT_PYTHON_COMMON_H_
#define WEFT_PYTHON_COMMON_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <cstdint>

#include "hints.h"

namespace weft {

#define WEFT_NAMES(NAME)          \
  NAME(__chandle__)               \
  NAME(__cuda_array_interface__)  \
  NAME(__cuda_stream__)           \
  NAME(__dataclass_params__)      \
  NAME(__dlpack__)                \
  NAME(__dlpack_c_exchange_api__) \
  NAME(__dlpack_data_type__)      \
  NAME(__dlpack_device__)         \
  NAME(__name__)                  \
  NAME(__torch_dispatch__)        \
  NAME(__tvm_ffi_float__)         \
  NAME(__tvm_ffi_int__)           \
  NAME(__tvm_ffi_object__)        \
  NAME(__tvm_ffi_opaque_ptr__)    \
  NAME(__tvm_ffi_value__)         \
  NAME(_cdata)                    \
  NAME(_fields)                   \
  NAME(add_note)                  \
  NAME(cuda_stream)               \
  NAME(detach)                    \
  NAME(from_dlpack)               \
  NAME(item)                      \
  NAME(max_version)               \
  NAME(name)                      \
  NAME(numpy)                     \
  NAME(ptr)                       \
  NAME(stream)                    \
  NAME(torch)

// Interned attribute names, filled once at import.
struct Names {
#define WEFT_NAME(name) PyObject* name = nullptr;
  WEFT_NAMES(WEFT_NAME)
#undef WEFT_NAME
};
extern Names g_names;

int prepare_names();

// A module that the program has imported, or nullptr without an exception: the marshaller never imports an
// array library itself. Borrowed from sys.modules.
PyObject* imported_module(const char* name);

// `module.attribute` of a module that is already imported, as a new reference, or nullptr without an
// exception.
PyObject* imported_attribute(const char* module, const char* attribute);

// True when `object` is an instance of an imported module's class; false when the module is not imported.
// An exception raised on the way counts as false.
bool is_instance_of_imported(PyObject* object, const char* module, const char* attribute);

// Sets an exception with a formatted message and returns -1.
int refuse(PyObject* exception_type, const char* format, ...);

// The result of `call`. Before Python 3.14 a thread that wants the GIL of a finalizing interpreter is
// unwound; with generated code or destructors on its stack, which would end the process, it waits forever
// instead.
template <typename Call>
auto or_wait_for_the_end(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Whether this thread has the GIL; reliable even while and after the interpreter ends.
bool holds_the_gil();

// Waits forever if the interpreter ends and another thread has the GIL: this one is being unwound.
WEFT_COLD void wait_unless_held();

// Drops a reference with the GIL held, in any context: its finalizer may release the GIL and never get it
// back, and destructors must not be unwound.
inline void drop(PyObject* object) {
  if (object == nullptr) return;
  if (WEFT_UNLIKELY(Py_REFCNT(object) == 1)) {
    wait_unless_held();
    or_wait_for_the_end([object] { Py_DECREF(object); });
  } else {
    Py_DECREF(object);
  }
}

// A reference that is dropped at the end of the scope.
class Reference {
 public:
  explicit Reference(PyObject* object = nullptr) : object_(object) {}
  ~Reference() { drop(object_); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  Reference(Reference&& other) noexcept : object_(other.release()) {}

  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  void reset(PyObject* object) {
    PyObject* previous = object_;
    object_ = object;
    drop(previous);
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

}  // namespace weft

#endif  // WEFT_PYTHON_COMMON_H_
