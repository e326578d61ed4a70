// SPDX-License-Identifier: Apache-2.0
//
// The pool of cells. The pool and `state` are used with the GIL held; an escaped cell may be released by
// any thread.
#include "python/tensors/tensor_cell.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "ffi_library.h"
#include "python/callbacks/deferred.h"
#include "python/readers/readers.h"

namespace weft {
namespace {

constexpr uint64_t kUnique = (uint64_t{1} << 32) | 1;  // one strong reference and the weak one it implies
constexpr int32_t kPooledRank = 8;
constexpr int kPoolLimit = 64;

// libtvm_ffi's own allocator puts two words before an object; zeros mean that nothing is attached.
struct Cell {
  uint64_t allocator_words[2];
  TVMFFIObject object;
  DLTensor tensor;
  PyObject* source;        // borrowed while the call lasts, owned once escaped
  const TypeEntry* entry;  // of the source
  Export* exported;        // the call's, while it lasts
  Export kept;             // a producer's export that an escaped cell took over
  Cell* next;              // in the pool
  int32_t capacity;        // ranks that fit `dims`
  bool escaped;
  bool read_only;
  int64_t dims[];  // shape, then strides
};
static_assert(offsetof(Cell, tensor) == offsetof(Cell, object) + sizeof(TVMFFIObject),
              "a tensor object is a header and a DLTensor");

Cell* g_pool = nullptr;
int g_pool_count = 0;
std::atomic<int64_t> g_read_only_count{0};  // of the cells in use

Cell* cell_of(const void* object) {
  const char* start = static_cast<const char*>(object) - offsetof(Cell, object);
  return reinterpret_cast<Cell*>(const_cast<char*>(start));
}

// Runs on any thread, for escaped cells only: those in use have the call's own reference. Once the
// interpreter has begun to end, Python objects and libraries' exports are left alone.
void delete_cell(void* object, int flags) {
  Cell* cell = cell_of(object);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) {
    drop_anywhere(cell->source);
    cell->source = nullptr;
    if (cell->read_only) g_read_only_count.fetch_sub(1, std::memory_order_relaxed);
    if (cell->kept.managed != nullptr && interpreter_is_usable()) cell->kept.release(cell->kept.managed);
    cell->kept.managed = nullptr;
  }
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) std::free(cell);
}

Cell* new_cell(int32_t rank) {
  int32_t capacity = rank > kPooledRank ? rank : kPooledRank;
  size_t bytes = sizeof(Cell) + sizeof(int64_t) * 2 * static_cast<size_t>(capacity);
  Cell* cell = static_cast<Cell*>(std::malloc(bytes));
  if (cell == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  std::memset(cell, 0, sizeof(Cell));
  cell->object.combined_ref_count = kUnique;
  cell->object.type_index = kTVMFFITensor;
  cell->object.deleter = delete_cell;
  cell->capacity = capacity;
  return cell;
}

// What keeps the memory of an escaped cell: for torch a detached alias, because `tensor.set_` or
// `tensor.data =` would take the storage away from the tensor itself; for buffers an export, because a
// bytearray without one may be resized.
PyObject* keeper_of(PyObject* source, const TypeEntry& entry) {
  PyObject* keeper = nullptr;
  if (entry.family == Family::kTorch) keeper = PyObject_CallMethodNoArgs(source, g_names.detach);
  if (entry.family == Family::kBuffer) keeper = PyMemoryView_FromObject(source);
  if (keeper != nullptr) return keeper;
  PyErr_Clear();
  return Py_NewRef(source);
}

// A producer's export for the call moves to the cell; a producer that only lent the memory is asked for a
// lasting export.
void escape(Cell* cell) {
  PyObject* source = cell->source;
  cell->escaped = true;
  cell->source = nullptr;
  if (cell->exported != nullptr) {
    cell->kept = *cell->exported;
    cell->exported->managed = nullptr;
  } else if (cell->entry->family != Family::kExchange ||
             !export_for_keeping(source, *cell->entry, &cell->kept)) {
    cell->source = keeper_of(source, *cell->entry);
  }
}

// Whether the NumPy array that keeps an escaped cell's memory still matches the cell.
bool still_describes(const Cell& cell) {
  if (cell.source == nullptr || cell.entry->family != Family::kNumpy || cell.entry->check != nullptr)
    return false;
  Scratch scratch;
  TensorView view;
  if (read_tensor(cell.source, *cell.entry, scratch, &view) != 0) {
    PyErr_Clear();
    return false;
  }
  const DLTensor& now = view.tensor;
  const DLTensor& then = cell.tensor;
  auto bytes = sizeof(int64_t) * static_cast<size_t>(then.ndim);
  return now.data == then.data && now.ndim == then.ndim &&
         std::memcmp(&now.dtype, &then.dtype, sizeof(DLDataType)) == 0 &&
         std::memcmp(now.shape, then.shape, bytes) == 0 && std::memcmp(now.strides, then.strides, bytes) == 0;
}

void release_cell(void* object) {
  Cell* cell = static_cast<Cell*>(object);
  uint64_t count = __atomic_load_n(&cell->object.combined_ref_count, __ATOMIC_ACQUIRE);
  if (WEFT_LIKELY(count == kUnique)) {
    if (WEFT_UNLIKELY(cell->read_only)) g_read_only_count.fetch_sub(1, std::memory_order_relaxed);
    if (cell->capacity == kPooledRank && g_pool_count < kPoolLimit) {
      cell->source = nullptr;
      cell->next = g_pool;
      g_pool = cell;
      ++g_pool_count;
    } else {
      std::free(cell);
    }
    return;
  }
  escape(cell);
  ffi().object_dec_ref(&cell->object);
}

}  // namespace

TVMFFIObject* take_cell(PyObject* source, const TypeEntry& entry, const TensorView& view, Scratch& scratch) {
  int32_t rank = view.tensor.ndim;
  Cell* cell = g_pool;
  if (WEFT_LIKELY(cell != nullptr && rank <= kPooledRank)) {
    g_pool = cell->next;
    --g_pool_count;
  } else {
    cell = new_cell(rank);
    if (cell == nullptr) return nullptr;
  }
  cell->source = source;
  cell->entry = &entry;
  cell->exported = view.exported;
  cell->read_only = view.read_only;
  cell->tensor = view.tensor;
  cell->tensor.shape = cell->dims;
  cell->tensor.strides = cell->dims + rank;
  for (int32_t axis = 0; axis < rank; ++axis) {
    cell->dims[axis] = view.tensor.shape[axis];
    cell->dims[rank + axis] = view.tensor.strides[axis];
  }
  if (WEFT_UNLIKELY(view.read_only)) g_read_only_count.fetch_add(1, std::memory_order_relaxed);
  if (scratch.at_end(release_cell, cell) != 0) return nullptr;
  return &cell->object;
}

PyObject* hold_memory(PyObject* source, const TypeEntry& entry, const TensorView& view, PyObject* held,
                      Scratch& scratch) {
  auto drop = [](void* object) { Py_DECREF(static_cast<PyObject*>(object)); };
  if (source != held && scratch.at_end(drop, Py_NewRef(source)) != 0) return nullptr;
  if (view.exported != nullptr) return source;
  Export exported;
  if (entry.family == Family::kExchange && export_for_keeping(source, entry, &exported)) {
    return scratch.keep(exported.managed, exported.release) == nullptr ? nullptr : source;
  }
  PyObject* keeper = keeper_of(source, entry);
  if (keeper == source) {  // held already; a second reference would hide a cycle from the collector
    Py_DECREF(keeper);
    return source;
  }
  return scratch.at_end(drop, keeper) == 0 ? keeper : nullptr;
}

TVMFFIObject* make_tensor(PyObject* source, const TypeEntry& entry, const TensorView& view) {
  Scratch scratch;  // at its end the cell escapes, since it has a second reference
  TVMFFIObject* cell = take_cell(source, entry, view, scratch);
  if (cell != nullptr) ffi().object_inc_ref(cell);
  return cell;
}

TVMFFIObject* make_tensor_of_capsule(PyObject* capsule) {
  static const TypeEntry entry;
  Scratch scratch;
  TensorView view;
  if (read_capsule(capsule, scratch, &view) != 0) return nullptr;
  return make_tensor(capsule, entry, view);
}

TVMFFIObject* make_view(TVMFFIObject* of, const DLTensor& part) {
  static const TypeEntry entry;
  Scratch scratch;
  const bool is_view = of->deleter == delete_cell && cell_of(of)->kept.release == drop_handle;
  void* whole = is_view ? cell_of(of)->kept.managed : of;
  ffi().object_inc_ref(whole);
  const TensorView view{part, is_read_only_cell(of), false, scratch.keep(whole, drop_handle)};
  return view.exported == nullptr ? nullptr : make_tensor(nullptr, entry, view);
}

void drop_handle(void* handle) { ffi().object_dec_ref(handle); }

Keeper keep_handle(TVMFFIObject* handle) {
  ffi().object_inc_ref(handle);
  return {handle, drop_handle};
}

bool is_read_only_cell(const TVMFFIObject* object) {
  return object->deleter == delete_cell && cell_of(object)->read_only;
}

uint64_t export_flags(const TVMFFIObject* object, bool versioned) {
  if (!is_read_only_cell(object)) return 0;
  return versioned || !cell_of(object)->entry->immutable ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
}

bool read_only_cells_exist() { return g_read_only_count.load(std::memory_order_relaxed) != 0; }

PyObject* source_of_cell(const TVMFFIObject* object) {
  if (object->deleter != delete_cell) return nullptr;
  const Cell* cell = cell_of(object);
  return !cell->escaped || still_describes(*cell) ? cell->source : nullptr;
}

}  // namespace weft
