// SPDX-License-Identifier: Apache-2.0
//
// Direct calls: of `@weft.jit` functions, and launches of kernels without a host function of the user's.
//
// A direct call of known types is found and made here. Any other goes to the class's own `__call__` in
// Python, which compiles, words errors, and leaves the compiled function in the table.
#ifndef WEFT_PYTHON_DIRECT_CALL_H_
#define WEFT_PYTHON_DIRECT_CALL_H_

#include <string>
#include <unordered_map>

#include "python/common.h"

namespace weft {

// Launches without a host function of the user's, by the arguments that the generated one gets besides the
// kernel's.
enum LaunchKind : uint8_t {
  kOnGrid = 0,
  kOver = 2,
  kOnStream = 1,  // besides one of the others; alone, of a host function
};
constexpr int kLaunchKinds = 4;

// The (x, y, z) of the grid or block that a launch gave last. Both owned, or nullptr.
struct SizesOfOne {
  PyObject* given;  // an int, or a tuple of ints
  PyObject* sizes;
};

// A generated host function. All owned; nullptr until there is one.
struct GeneratedHost {
  PyObject* host;    // a StagedFunction whose calls begin here
  PyObject* names;   // a tuple of the names of the launch's arguments
  PyObject* guards;  // Guards of the parts of the kernel that it repeats
  PyObject* bare;    // the BareHost, for errors
  SizesOfOne last[2];
};

// The base of functions that weft compiles instead of running them.
struct StagedFunction {
  PyObject base;
  vectorcallfunc vectorcall;  // of classes given to `call_natively`
  PyObject* function;         // owned: the user's function, which may be replaced
  PyObject* table;            // owned: a CallTable, or nullptr
  GeneratedHost hosts[kLaunchKinds];
};

// A compiled function that calls with one key run.
struct KnownCall {
  std::string key;
  PyObject* compiled;   // owned: a Function with a plan
  PyObject* guards;     // owned: Guards, or nullptr if nothing was captured
  PyObject* constants;  // owned: a tuple of the objects whose addresses are in the key
};

// The compiled functions of one Python function, by a call's arguments: the base of `Specializations`.
struct CallTable {
  PyObject base;
  PyObject* function;  // owned
  PyObject* code;      // owned: the function's when this was made
  PyObject* names;     // owned: a tuple of its parameters and variables
  PyObject*
      overrides;     // owned: the context variable of `weft.config`; calls under an override are not for here
  Py_ssize_t count;  // of parameters
  Py_ssize_t positional;
  Py_ssize_t positional_only;
  uint64_t constants;                              // bits of the parameters that are compile-time constants
  std::unordered_map<uint64_t, KnownCall>* known;  // by the hash of the key
  KnownCall* last;                                 // found last, of `known`, or nullptr
};

// Makes a call that is known: true, and its result in `result`, which is nullptr with an exception if it
// failed. False, without an exception, for any other call.
bool call_known(StagedFunction* staged, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords,
                PyObject** result);

// The same through the generated host function of that kind, whose arguments come after those of the
// function.
bool call_generated(StagedFunction* staged, int kind, PyObject* const* arguments, Py_ssize_t positional,
                    PyObject* keywords, PyObject** result);

// The value of `stream=` among the keywords, if the function has no such parameter; borrowed, or nullptr.
PyObject* stream_of_call(const StagedFunction* staged, PyObject* const* arguments, Py_ssize_t positional,
                         PyObject* keywords);

PyTypeObject* staged_function_type();

}  // namespace weft

#endif  // WEFT_PYTHON_DIRECT_CALL_H_
