// SPDX-License-Identifier: Apache-2.0
//
// Table of Python types for the marshaller: their kind, and how a tensor's memory is found. A type is
// examined once; its entry is never freed and keeps the type alive, so that a cached pointer to an entry
// never refers to another type.
#ifndef WEFT_PYTHON_TYPE_TABLE_H_
#define WEFT_PYTHON_TYPE_TABLE_H_

#include "python/call/scratch.h"
#include "python/common.h"

namespace weft {

enum class Kind : uint8_t {
  kUnknown,
  kNone,
  kBool,
  kInt,
  kFloat,
  kStr,
  kBytes,
  kNumpyScalar,
  kTensor,
  kTuple,
  kList,
  kFunction,       // weft._native.Function
  kObject,         // weft._native.Object: an owned FFI object
  kForeignObject,  // tvm_ffi's own objects, which expose their handle
  kForeignHolder,  // an object with __tvm_ffi_object__
  kStream,         // an object with __cuda_stream__
  kAdapter,        // a type registered with an adapter
  kRecord,         // a named tuple, a frozen dataclass or a complex number, passed as the tuple of its fields
  kPointer,        // ctypes.c_void_p, or an object with __tvm_ffi_opaque_ptr__
  kPacked,         // weft._native.Packed: an array of bytes as packed elements
  // The rest are arguments of foreign functions only; compiled functions refuse them.
  kAny,         // weft._native.OwnedAny and AnyView
  kTensorView,  // weft._native.TensorView, passed as DLTensor*
  kMoved,       // weft._native.Moved: an object that the callee may take over
  kDict,
  kDataType,  // dtypes of weft, NumPy, torch and tvm_ffi
  kDevice,    // weft.ffi.Device, torch.device
  kShape,     // weft.ffi.Shape
  kIndex,     // a number with __index__
  kReal,      // a numbers.Real
  kProtocol,  // an object with one of tvm_ffi's value protocols
  kException,
  kCallable,
};

// The array library of an argument, also used for results.
enum class Family : uint8_t { kNone, kNumpy, kTorch, kExchange, kDlpack, kCudaArray, kBuffer };

// A tensor argument as seen by a callee. `tensor.shape` and `tensor.strides` point into the call's scratch.
struct TensorView {
  DLTensor tensor;
  bool read_only;
  bool copied;       // a copy made by the producer for this call
  Export* exported;  // a producer's export for this call, or nullptr: the memory is the object's own
};

struct TypeEntry;

// Fills `view`; returns 0, or -1 with an exception that does not name the argument yet.
using TensorReader = int (*)(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

// Refuses objects that look like tensors but would be read wrongly; nullptr if there are none.
using TensorCheck = int (*)(PyObject* object);

struct TypeEntry {
  PyTypeObject* type = nullptr;
  Kind kind = Kind::kUnknown;
  Family family = Family::kNone;
  bool settled = true;        // false: examined again at the next call
  DLDataType dtype{0, 0, 0};  // of a NumPy scalar
  bool immutable = false;     // arrays that their library never changes, whatever their export's flags
  bool names_stream =
      false;  // arrays read by DLPack whose __cuda_array_interface__ may name their library's stream
  bool in_place = false;  // a NumPy scalar whose value follows the object's header
  uint32_t serial = 0;    // tells types apart in argument keys
  TensorCheck check = nullptr;
  TensorReader read = nullptr;
  const DLPackExchangeAPI* exchange = nullptr;
  PyObject* importer = nullptr;  // from_dlpack of an array class's library, once known
  PyObject* adapter = nullptr;
  PyObject* protocol = nullptr;   // the method of Kind::kProtocol, or of kPointer; interned
  PyObject* fields = nullptr;     // of a record: the names of the passed ones
  PyObject* constants = nullptr;  // of a record: the names of the compile-time ones
};

// The entry of an object's type, made when first seen. nullptr with an exception set if examining the type
// failed.
const TypeEntry* find_type(PyObject* object);

// The same for the class of results.
const TypeEntry* entry_of_type(PyTypeObject* type);

// Whether tensors can be made instances of the type: looks up its library's from_dlpack if unknown.
bool find_importer(const TypeEntry* entry);

// Registers the function from an instance of `type` to the value marshalled for it. ValueError for a type
// whose instances are arguments already.
int register_adapter(PyTypeObject* type, PyObject* adapter);

// The rungs of the ladder that may be used, a mask of the values below. All of them by default.
enum ReaderRung : unsigned {
  kRungTorchShim = 1,
  kRungNumpyStruct = 2,
  kRungExchange = 4,
  kRungDlpack = 8,
  kRungCudaArray = 16,
  kRungBuffer = 32,
  kRungAll = 63,
};
unsigned reader_rungs();

// Reads any tensor argument by its entry: checks, then the fastest rung that serves its type.
//
// Immutable arrays are read-only, though their memory may be writable.
inline int read_tensor(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view) {
  view->exported = nullptr;
  view->copied = false;
  if (WEFT_UNLIKELY(entry.check != nullptr) && entry.check(object) != 0) return -1;
  return entry.read(object, entry, scratch, view);
}

}  // namespace weft

#endif  // WEFT_PYTHON_TYPE_TABLE_H_
