// SPDX-License-Identifier: Apache-2.0
//
// The extension module weft._native: multi-phase initialization and nothing else. Importing it opens no
// library, imports no other module, installs no handler and registers nothing to run at exit.
#include "module.h"

#include <weft/runtime_table.h>

#include "python/common.h"

#include "driver/python/python_module.h"

namespace weft {
namespace {

using AddFunction = int (*)(PyObject* module);

constexpr AddFunction kParts[] = {
    add_runtime_table, add_ffi_library,   add_environment,  add_object,        add_object_classes,
    add_tensor,        add_tensor_view,   add_packed,       add_any,           add_moved,
    add_value_classes, add_call_plan,     add_function,     add_callback,      add_registry,
    add_mapping_items, add_reflection,    add_ffi_errors,   add_error_values,  add_type_table,
    add_argument_keys, add_call_keys,     add_unchanged,    add_driver,        add_runtime,
    add_cpu_pool,      add_prepared_call, add_launch_hooks, add_launch_limits, add_launch_memory,
    add_linker,        add_locked_call,   add_xla_handlers, add_guards,        add_direct_calls,
    add_launch_calls,
};

#ifdef Py_GIL_DISABLED
// Whether a free-threaded interpreter has enabled its GIL for this module; -1 with an exception.
int has_gil() {
  Reference enabled(PyObject_CallFunctionObjArgs(PySys_GetObject("_is_gil_enabled"), nullptr));
  return enabled ? PyObject_IsTrue(enabled.get()) : -1;
}
#endif

// The extension keeps process-wide state (libraries, type caches), so a second interpreter is refused.
int execute(PyObject* module) {
  static PyInterpreterState* owner = nullptr;
  PyInterpreterState* current = PyInterpreterState_Get();
  if (owner != nullptr && owner != current) {
    PyErr_SetString(PyExc_ImportError,
                    "weft._native is loaded in another interpreter of this process; sub-interpreters are not "
                    "supported");
    return -1;
  }
  owner = current;
#ifdef Py_GIL_DISABLED
  if (has_gil() != 1) {
    if (!PyErr_Occurred()) {
      PyErr_SetString(
          PyExc_ImportError,
          "weft._native needs the interpreter's lock, which PYTHON_GIL=0 or -X gil=0 disabled for "
          "good; start Python without it, and the lock is enabled when weft is imported");
    }
    return -1;
  }
#endif
  if (prepare_names() != 0) return -1;
  for (AddFunction add : kParts) {
    if (add(module) != 0) return -1;
  }
  return 0;
}

PyModuleDef_Slot kSlots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(execute)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    // A free-threaded interpreter runs with its GIL on while weft is loaded: type entries and reference
    // counts in cells rely on it.
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, nullptr},
};

PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT,
    "weft._native",
    "The native half of weft: the marshaller, the runtime table and the drivers.",
    0,
    nullptr,
    kSlots,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

// RUNTIME_TABLE: a tuple of (name, LLVM function type text) in the order of the rows, which is the order
// of the pointers in the table after its 64-bit version.
int add_runtime_table(PyObject* module) {
#define WEFT_ROW(name, result, parameters, llvm_type) {#name, llvm_type},
  constexpr const char* kRows[][2] = {WEFT_RUNTIME_TABLE(WEFT_ROW)};
#undef WEFT_ROW
  constexpr Py_ssize_t kCount = sizeof(kRows) / sizeof(kRows[0]);
  PyObject* rows = PyTuple_New(kCount);
  if (rows == nullptr) return -1;
  for (Py_ssize_t index = 0; index < kCount; ++index) {
    PyObject* row = Py_BuildValue("(ss)", kRows[index][0], kRows[index][1]);
    if (row == nullptr) {
      Py_DECREF(rows);
      return -1;
    }
    PyTuple_SET_ITEM(rows, index, row);
  }
  int failed = PyModule_AddObjectRef(module, "RUNTIME_TABLE", rows);
  Py_DECREF(rows);
  if (failed != 0) return -1;
  return PyModule_AddIntConstant(module, "RUNTIME_TABLE_VERSION", WEFT_RUNTIME_TABLE_VERSION);
}

}  // namespace weft

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&weft::kModule); }
