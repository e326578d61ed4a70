// SPDX-License-Identifier: Apache-2.0
//
// The runtime's questions, answered by Python. A program that never sets an allocator needs no interpreter
// for its memory.
#include "runtime/interpreter.h"

#include <atomic>

#include "driver/launch/extractors.h"
#include "driver/python/python_module.h"
#include "python/callbacks/deferred.h"
#include "python/errors/ffi_error.h"
#include "python/errors/foreign_error.h"
#include "python/gil.h"
#include "python/values/type_table.h"
#include "runtime/failure.h"

namespace weft {

WithoutGil::WithoutGil() : saved_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}

WithoutGil::~WithoutGil() {
  if (saved_ != nullptr) restore_thread(static_cast<PyThreadState*>(saved_));
}

// An opaque object is {header, PyObject*}. Only its type's name is read, which lives as long as the object,
// so no GIL is needed.
std::string opaque_object_text(const TVMFFIAny& value) {
  auto* object = *reinterpret_cast<PyObject**>(value.v_obj + 1);
  if (object == nullptr) return "a Python object";
  return std::string("a Python object of type ") + Py_TYPE(object)->tp_name;
}

namespace {

// Called as source(kind, bytes, alignment, stream); None is the pool. Owned, guarded by the GIL; the flag
// spares launches the GIL until an allocator is set.
PyObject* g_source = nullptr;
std::atomic<bool> g_has_source{false};

// The result of the user's allocator, its address in `*slot`: a new reference, None for the pool, or nullptr
// with an exception. Needs the GIL.
PyObject* ask_source(const weft_scratch& wanted, int64_t bytes, const ScratchPlace& place, void** slot) {
  Reference source(Py_NewRef(g_source));
  Reference memory(or_wait_for_the_end([&] {
    return PyObject_CallFunction(source.get(), "iLLK", int{wanted.kind}, static_cast<long long>(bytes),
                                 static_cast<long long>(wanted.alignment),
                                 reinterpret_cast<unsigned long long>(place.stream));
  }));
  if (!memory || memory.get() == Py_None) return memory.release();
  ParameterType pointer{};
  uint64_t address = 0;
  const ExtractionContext context{place.device, place.check, true};
  if (!parse_parameter_type("*i8", &pointer)) return nullptr;
  if (extract_parameter(memory.get(), pointer, context, &address) != 0) {
    Reference name(PyUnicode_FromFormat("scratch of %s", place.name));
    if (name) name_argument(name.get(), wanted.parameter, nullptr);
    return nullptr;
  }
  if (address == 0) {
    refuse(PyExc_ValueError, "scratch of %s: the allocator returned the address 0, expected %lld bytes",
           place.name, static_cast<long long>(bytes));
    return nullptr;
  }
  if (address % static_cast<uint64_t>(wanted.alignment) != 0) {
    refuse(PyExc_ValueError,
           "scratch of %s: the allocator returned the address %p, expected a multiple of %lld", place.name,
           reinterpret_cast<void*>(address), static_cast<long long>(wanted.alignment));
    return nullptr;
  }
  *slot = reinterpret_cast<void*>(address);
  return memory.release();
}

}  // namespace

int32_t take_from_allocator(const weft_scratch& wanted, int64_t bytes, const ScratchPlace& place, void** slot,
                            void** keeper) {
  *keeper = nullptr;
  if (!g_has_source.load(std::memory_order_relaxed) || !interpreter_is_usable()) return 0;
  HeldGil gil;
  Reference memory(ask_source(wanted, bytes, place, slot));
  if (!memory) return raise_into_ffi();
  if (memory.get() != Py_None) *keeper = memory.release();
  return 0;
}

void give_back_to_allocator(void* keeper) { drop_anywhere(static_cast<PyObject*>(keeper)); }

int32_t take_from_library(int64_t bytes, const ScratchPlace& place, DLManagedTensorVersioned** lent) {
  *lent = nullptr;
  const TypeEntry* entry = t_call == nullptr ? nullptr : t_call->tensors;
  const DLPackExchangeAPI* api = entry == nullptr ? nullptr : entry->exchange;
  if (api == nullptr || api->managed_tensor_allocator == nullptr || api->current_work_stream == nullptr ||
      place.device < 0 || !interpreter_is_usable()) {
    return 0;
  }
  void* current = nullptr;
  if (api->current_work_stream(kDLCUDA, place.device, &current) != 0) {
    HeldGil gil;
    PyErr_Clear();  // a library without this device
    return 0;
  }
  if (current != place.stream) return 0;
  DLTensor prototype{};
  prototype.device = {kDLCUDA, place.device};
  prototype.ndim = 1;
  prototype.dtype = {kDLUInt, 8, 1};
  prototype.shape = &bytes;
  auto refuse_memory = [](void* name, const char* kind, const char* message) {
    raise_error(kind, std::string("scratch of ") + static_cast<const char*>(name) + ": " + message);
  };
  return api->managed_tensor_allocator(&prototype, lent, const_cast<char*>(place.name), refuse_memory) == 0
             ? 0
             : -1;
}

namespace {

// set_scratch_source(source): source(kind, bytes, alignment, stream) gives memory, or None for the pool.
PyObject* set_scratch_source(PyObject*, PyObject* source) {
  PyObject* previous = g_source;
  g_source = Py_NewRef(source);
  g_has_source.store(true, std::memory_order_relaxed);
  Py_XDECREF(previous);
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"set_scratch_source", set_scratch_source, METH_O,
     "set_scratch_source(source)\n--\n\n"
     "Launches ask source(kind, bytes, alignment, stream) for scratch; None is the driver's pool."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_launch_scratch(PyObject* module) { return PyModule_AddFunctions(module, kMethods); }

}  // namespace weft
