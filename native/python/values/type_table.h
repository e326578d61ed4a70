// SPDX-License-Identifier: Apache-2.0
//
// What the marshaller knows about a Python type: its kind, and for tensors how its memory is found. A type
// is looked at once; its entry is never freed and keeps the type alive, so that a cached pointer to an
// entry cannot meet another type at the same address.
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
  kForeignObject,  // tvm_ffi's own objects, which tell their handle
  kForeignHolder,  // an object with __tvm_ffi_object__
  kStream,         // an object with __cuda_stream__
  kAdapter,        // a type registered with a function that gives its value
  kRecord,         // a named tuple or a frozen dataclass, passed as the tuple of its run-time fields
  kPointer,        // ctypes.c_void_p, or an object with __tvm_ffi_opaque_ptr__
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

// The array library that an argument came from, which is also what results are made of.
enum class Family : uint8_t { kNone, kNumpy, kTorch, kExchange, kDlpack, kCudaArray, kBuffer };

// A tensor argument as a callee sees it. `tensor.shape` and `tensor.strides` point into the call's scratch.
struct TensorView {
  DLTensor tensor;
  bool read_only;
  bool copied;       // a copy that the producer made for this call
  Export* exported;  // what a producer handed out for this call, or nullptr: the memory is the object's own
};

struct TypeEntry;

// Fills `view`; returns 0, or -1 with an exception that does not name the argument yet.
using TensorReader = int (*)(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view);

// Refuses what would be read wrongly although it looks like a tensor; nullptr where nothing can be.
using TensorCheck = int (*)(PyObject* object);

struct TypeEntry {
  PyTypeObject* type = nullptr;
  Kind kind = Kind::kUnknown;
  Family family = Family::kNone;
  bool settled = true;        // false: looked at again at the next call
  DLDataType dtype{0, 0, 0};  // of a NumPy scalar
  bool immutable = false;     // arrays that their library never changes, whatever their export says
  bool in_place = false;      // a NumPy scalar whose value was found after the object's header
  uint32_t serial = 0;        // tells types apart in argument keys
  TensorCheck check = nullptr;
  TensorReader read = nullptr;
  const DLPackExchangeAPI* exchange = nullptr;
  PyObject* importer =
      nullptr;  // from_dlpack of the library that an array class belongs to, once it is known
  PyObject* adapter = nullptr;
  PyObject* protocol = nullptr;   // the method of Kind::kProtocol, or of kPointer; interned
  PyObject* fields = nullptr;     // of a record: the names of those that are passed
  PyObject* constants = nullptr;  // of a record: the names of those that are fixed when compiling
};

// The entry of an object's type, made when it is first seen. nullptr with an exception set when the look
// at the type failed.
const TypeEntry* find_type(PyObject* object);

// The same for a type whose instances results are made of.
const TypeEntry* entry_of_type(PyTypeObject* type);

// Whether tensors can be made instances of the type: looks for its library's from_dlpack where it is not
// known.
bool find_importer(const TypeEntry* entry);

// Registers the function that gives the value marshalled in place of instances of `type`. ValueError for a
// type whose instances are arguments as they are.
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
// What is immutable is read-only, though its memory may be written.
inline int read_tensor(PyObject* object, const TypeEntry& entry, Scratch& scratch, TensorView* view) {
  view->exported = nullptr;
  view->copied = false;
  if (WEFT_UNLIKELY(entry.check != nullptr) && entry.check(object) != 0) return -1;
  return entry.read(object, entry, scratch, view);
}

}  // namespace weft

#endif  // WEFT_PYTHON_TYPE_TABLE_H_
