// SPDX-License-Identifier: Apache-2.0
//
// The functions with which module.cpp fills the extension: one per concern, each adds its names to the module
// and returns 0, or -1 with a Python exception set. A new one also needs a line in module.cpp's table.
#ifndef WEFT_MODULE_H_
#define WEFT_MODULE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace weft {

int add_any(PyObject* module);             // python/any.cpp
int add_callback(PyObject* module);        // python/callback.cpp
int add_environment(PyObject* module);     // python/environment.cpp
int add_ffi_library(PyObject* module);     // ffi_library.cpp
int add_runtime_table(PyObject* module);   // module.cpp
int add_cpu_pool(PyObject* module);        // cpu/python_pool.cpp
int add_runtime(PyObject* module);         // runtime/python_code_image.cpp
int add_argument_keys(PyObject* module);   // python/argument_key.cpp
int add_call_keys(PyObject* module);       // python/call_key.cpp
int add_call_plan(PyObject* module);       // python/call_plan.cpp
int add_direct_calls(PyObject* module);    // python/call/direct_call.cpp
int add_error_values(PyObject* module);    // python/error_value.cpp
int add_ffi_errors(PyObject* module);      // python/ffi_error.cpp
int add_function(PyObject* module);        // python/function.cpp
int add_guards(PyObject* module);          // python/call/guards.cpp
int add_launch_limits(PyObject* module);   // runtime/launch/python_launch_limits.cpp
int add_launch_memory(PyObject* module);   // runtime/launch/launch_memory.cpp
int add_linker(PyObject* module);          // runtime/linker/python_linked_object.cpp
int add_locked_call(PyObject* module);     // python/locked_call.cpp
int add_moved(PyObject* module);           // python/moved.cpp
int add_launch_calls(PyObject* module);    // python/call/launch_call.cpp
int add_launch_hooks(PyObject* module);    // runtime/launch/launch_hooks.cpp
int add_object(PyObject* module);          // python/object.cpp
int add_object_classes(PyObject* module);  // python/object_class.cpp
int add_prepared_call(PyObject* module);   // python/prepared_call.cpp
int add_reflection(PyObject* module);      // python/reflection.cpp
int add_registry(PyObject* module);        // python/registry.cpp
int add_mapping_items(PyObject* module);   // python/mapping_items.cpp
int add_tensor(PyObject* module);          // python/tensor.cpp
int add_tensor_view(PyObject* module);     // python/tensor_view.cpp
int add_packed(PyObject* module);          // python/packed.cpp
int add_type_table(PyObject* module);      // python/type_table.cpp
int add_unchanged(PyObject* module);       // python/unchanged.cpp
int add_value_classes(PyObject* module);   // python/value_class.cpp
int add_xla_handlers(PyObject* module);    // xla/python_handler.cpp

}  // namespace weft

#endif  // WEFT_MODULE_H_
