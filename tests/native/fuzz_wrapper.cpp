// SPDX-License-Identifier: Apache-2.0
//
// Calls one wrapper through the bare ABI with random arguments: valid ones, valid ones with one thing wrong,
// and anything. The host object is linked in; the rows of the runtime table that wrappers for the CPU use are
// the real ones, built with the address sanitizer. Generated code is not instrumented, so everything that it
// reads ends at a page that cannot be read.
//
//   fuzz_wrapper <calls> <seed>
//
// The function is that of test_fuzz_wrapper.py. Exits with 0 when every call returned 0 or -1 with an error
// that begins with the function's name, and every reference that was taken was given back.
#include <sys/mman.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>
#include <weft/runtime_table.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "ffi_library.h"
#include "runtime/array.h"
#include "runtime/failure.h"
#include "runtime/scalar.h"
#include "runtime/shape.h"

extern "C" {
extern weft_state* weft_state_of_object __asm__("weft_state");
int32_t __tvm_ffi_f(void* handle, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);
}

namespace {

[[noreturn]] void stop(const char* what) {
  fprintf(stderr, "fuzz_wrapper: %s\n", what);
  abort();
}

std::mt19937_64 g_random;
uint64_t below(uint64_t count) { return g_random() % count; }
bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }

// Memory whose last byte stands before a page that cannot be read. Regions are used in turn; a call needs
// fewer of them than there are.
class Fence {
 public:
  Fence() {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    base_ = static_cast<char*>(
        mmap(nullptr, 2 * page_ * kRegions, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) stop("no memory");
    for (size_t region = 0; region < kRegions; ++region) {
      mprotect(base_ + (2 * region + 1) * page_, page_, PROT_NONE);
    }
  }
  void* take(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    if (bytes > page_ || used_ == kRegions) stop("a call needs more memory than there is");
    return base_ + (2 * used_++ + 1) * page_ - bytes;
  }
  template <typename T>
  T* take_array(size_t count) {
    return static_cast<T*>(take(sizeof(T) * count));
  }
  void reset() { used_ = 0; }

 private:
  static constexpr size_t kRegions = 256;
  size_t page_, used_ = 0;
  char* base_;
};

Fence g_fence;

constexpr uint64_t kReferences = (uint64_t{1} << 32) | 1000;  // weak and strong, in one word
constexpr int kMostObjects = 64;
TVMFFIObject* g_objects[kMostObjects];
int g_object_count;
TVMFFIObject* g_owned[kMostObjects];  // made by libtvm_ffi
int g_owned_count;

// A header and `bytes` of content, with many references, so that it is never freed.
char* make_object(int32_t type, size_t bytes) {
  auto* object = static_cast<TVMFFIObject*>(g_fence.take(sizeof(TVMFFIObject) + bytes));
  memset(object, 0, sizeof(TVMFFIObject));
  object->combined_ref_count = kReferences;
  object->type_index = type;
  g_objects[g_object_count++] = object;
  return reinterpret_cast<char*>(object + 1);
}

void set_object(TVMFFIAny* value, int32_t type, void* content) {
  value->type_index = type;
  value->v_obj = static_cast<TVMFFIObject*>(content) - 1;
}

int64_t any_integer() {
  static constexpr int64_t kCorners[] = {0,   1,   -1,        127,       128,       -128,      -129,
                                         255, 256, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 2147483648};
  if (chance(50)) return kCorners[below(sizeof(kCorners) / sizeof(kCorners[0]))];
  return static_cast<int64_t>(g_random() >> below(64));
}

double any_float() {
  static const double kCorners[] = {0.0,       -0.0,    1.5,     NAN,   INFINITY,
                                    -INFINITY, 65504.0, 65520.0, 1e300, -3.5e38};
  if (chance(70)) return kCorners[below(sizeof(kCorners) / sizeof(kCorners[0]))];
  uint64_t bits = g_random();
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

alignas(64) char g_memory[4096];

struct Wanted {
  uint8_t code, bits;
  int rank;
  int64_t dims[3];  // 0: n; -1: any
};

void fill_tensor(DLTensor* tensor, const Wanted& wanted, int64_t n) {
  *tensor = {};
  tensor->data = g_memory;
  tensor->device = {kDLCPU, 0};
  tensor->ndim = wanted.rank;
  tensor->dtype = {wanted.code, wanted.bits, 1};
  tensor->shape = g_fence.take_array<int64_t>(static_cast<size_t>(wanted.rank));
  for (int axis = 0; axis < wanted.rank; ++axis) {
    tensor->shape[axis] = wanted.dims[axis] == 0  ? n
                          : wanted.dims[axis] < 0 ? static_cast<int64_t>(below(6))
                                                  : wanted.dims[axis];
  }
  if (chance(50)) return;  // no strides: contiguous
  tensor->strides = g_fence.take_array<int64_t>(static_cast<size_t>(wanted.rank));
  int64_t stride = 1;
  for (int axis = wanted.rank; axis-- > 0;) {
    tensor->strides[axis] = stride;
    stride *= tensor->shape[axis];
  }
}

// One field becomes something else.
void spoil_tensor(DLTensor* tensor) {
  // A rank that was spoiled has no dims to spoil.
  auto rank = static_cast<uint64_t>(tensor->ndim > 0 && tensor->ndim < 3 ? tensor->ndim : 0);
  switch (below(10)) {
    case 0:
      tensor->data = nullptr;
      break;
    case 1:
      tensor->data = g_memory + below(64);
      break;
    case 2:
      tensor->byte_offset = below(64);
      break;
    case 3:
      tensor->device = {static_cast<DLDeviceType>(below(20)), static_cast<int32_t>(below(3))};
      break;
    case 4:
      tensor->dtype = {static_cast<uint8_t>(g_random()), static_cast<uint8_t>(g_random()),
                       static_cast<uint16_t>(g_random())};
      break;
    case 5: {
      static constexpr int kRanks[] = {-1, 0, 1, 2, 3, 5, 64, 65, INT32_MAX, INT32_MIN};
      tensor->ndim = kRanks[below(10)];
      auto count = static_cast<size_t>(tensor->ndim >= 0 && tensor->ndim <= 64 ? tensor->ndim : 0);
      tensor->shape = g_fence.take_array<int64_t>(count);
      for (size_t axis = 0; axis < count; ++axis) tensor->shape[axis] = any_integer();
      tensor->strides = nullptr;
      break;
    }
    case 6:
      tensor->shape = nullptr;
      break;
    case 7:
      if (tensor->shape != nullptr && rank > 0) tensor->shape[below(rank)] = any_integer();
      break;
    default:
      if (tensor->strides != nullptr && rank > 0) tensor->strides[below(rank)] = any_integer();
  }
}

void tensor_value(TVMFFIAny* value, const Wanted& wanted, int64_t n, bool is_object) {
  DLTensor* tensor;
  if (is_object) {
    char* content = make_object(kTVMFFITensor, sizeof(DLTensor));
    set_object(value, kTVMFFITensor, content);
    tensor = reinterpret_cast<DLTensor*>(content);
  } else {
    tensor = g_fence.take_array<DLTensor>(1);
    value->type_index = kTVMFFIDLTensorPtr;
    value->v_ptr = tensor;
  }
  fill_tensor(tensor, wanted, n);
  while (chance(6)) spoil_tensor(tensor);
}

TVMFFIAny* array_value(TVMFFIAny* value, int64_t count) {
  int32_t type = chance(80) ? kTVMFFIArray : kTVMFFIList;
  char* content = make_object(type, sizeof(TVMFFISeqCell));
  auto* cell = reinterpret_cast<TVMFFISeqCell*>(content);
  memset(cell, 0, sizeof(*cell));
  if (chance(3)) count = static_cast<int64_t>(below(6));
  auto* items = g_fence.take_array<TVMFFIAny>(static_cast<size_t>(count));
  memset(items, 0, sizeof(TVMFFIAny) * static_cast<size_t>(count));
  cell->data = items;
  cell->size = cell->capacity = count;
  set_object(value, type, content);
  return items;
}

void big_integer(TVMFFIAny* value) {
  uint64_t words[3] = {g_random(), chance(60) ? 0 : g_random(), chance(80) ? 0 : g_random()};
  const TVMFFIByteArray content{reinterpret_cast<const char*>(words), 8 * (1 + below(3))};
  if (weft::ffi().big_int_from_byte_array(&content, value) != 0) stop("no big integer");
  if (value->type_index >= kTVMFFIStaticObjectBegin) g_owned[g_owned_count++] = value->v_obj;
}

void text_object(TVMFFIAny* value, int32_t type) {
  char* content = make_object(type, sizeof(TVMFFIByteArray));
  auto size = static_cast<size_t>(below(100));
  char* text = static_cast<char*>(g_fence.take(size));
  for (size_t index = 0; index < size; ++index) text[index] = static_cast<char>(g_random() % 255 + 1);
  *reinterpret_cast<TVMFFIByteArray*>(content) = {text, size};
  set_object(value, type, content);
}

void any_value(TVMFFIAny* value, int depth);

void shape_object(TVMFFIAny* value, int64_t count) {
  char* content = make_object(kTVMFFIShape, sizeof(TVMFFIShapeCell));
  auto* sizes = g_fence.take_array<int64_t>(static_cast<size_t>(count));
  for (int64_t index = 0; index < count; ++index) sizes[index] = any_integer();
  *reinterpret_cast<TVMFFIShapeCell*>(content) = {sizes, static_cast<size_t>(count)};
  set_object(value, kTVMFFIShape, content);
}

// A value of any kind that the ABI has.
void any_value(TVMFFIAny* value, int depth) {
  memset(value, 0, sizeof(*value));
  switch (below(20)) {
    case 0:
      return;
    case 1:
      value->type_index = kTVMFFIInt;
      value->v_int64 = any_integer();
      return;
    case 2:
      value->type_index = kTVMFFIBool;
      value->v_int64 = static_cast<int64_t>(below(2));
      return;
    case 3:
      value->type_index = kTVMFFIFloat;
      value->v_float64 = any_float();
      return;
    case 4:
      value->type_index = kTVMFFIOpaquePtr;
      value->v_int64 = any_integer();
      return;
    case 5:
      value->type_index = kTVMFFIDataType;
      value->v_int64 = any_integer();
      return;
    case 6:
      value->type_index = kTVMFFIDevice;
      value->v_int64 = any_integer();
      return;
    case 7:
      value->type_index = kTVMFFIRawStr;
      value->v_c_str = chance(20) ? nullptr : "a text that is not very short, so that it is cut";
      return;
    case 8:
      value->type_index = chance(50) ? kTVMFFISmallStr : kTVMFFISmallBytes;
      value->small_str_len = static_cast<uint32_t>(chance(90) ? below(8) : g_random());
      value->v_int64 = any_integer();
      return;
    case 9:
      return text_object(value, chance(50) ? kTVMFFIStr : kTVMFFIBytes);
    case 10:
      return big_integer(value);
    case 11:
      return shape_object(value, static_cast<int64_t>(below(5)));
    case 12:
    case 13:
      return tensor_value(value,
                          {static_cast<uint8_t>(below(7)), 32, static_cast<int>(below(4)), {-1, -1, -1}}, 3,
                          chance(50));
    case 14:
    case 15: {
      if (depth > 2) return;
      auto count = static_cast<int64_t>(below(4));
      TVMFFIAny* items = array_value(value, count);
      auto made = reinterpret_cast<TVMFFISeqCell*>(value->v_obj + 1)->size;
      for (int64_t index = 0; index < made; ++index) any_value(&items[index], depth + 1);
      return;
    }
    case 16: {
      static constexpr int32_t kObjects[] = {kTVMFFITensor, kTVMFFIArray, kTVMFFIShape,
                                             kTVMFFIBigInt, kTVMFFIStr,   kTVMFFIBytes,
                                             kTVMFFIModule, kTVMFFIMap,   kTVMFFIFunction};
      value->type_index = kObjects[below(9)];  // a null object
      return;
    }
    case 17:
      value->type_index = kTVMFFIDLTensorPtr;  // a null tensor
      return;
    case 18: {
      static constexpr int32_t kObjects[] = {kTVMFFIFunction, kTVMFFIModule, kTVMFFIMap, kTVMFFIDict,
                                             kTVMFFIError};
      int32_t type = kObjects[below(5)];
      return set_object(value, type, make_object(type, 64));
    }
    default:
      // A small index that the ABI has not given to anything.
      value->type_index =
          static_cast<int32_t>(below(2) == 0 ? 13 + below(40) : -static_cast<int64_t>(below(1000)));
      value->v_int64 = any_integer();
  }
}

void integer_value(TVMFFIAny* value, int64_t number) {
  value->type_index = kTVMFFIInt;
  value->v_int64 = number;
}

void float_value(TVMFFIAny* value) {
  value->type_index = kTVMFFIFloat;
  value->v_float64 = chance(80) ? 1.5 : any_float();
}

void shape_value(TVMFFIAny* value, const int64_t* sizes, int64_t count) {
  if (chance(50)) {
    shape_object(value, count);
    auto* cell = reinterpret_cast<TVMFFIShapeCell*>(value->v_obj + 1);
    for (int64_t index = 0; index < count; ++index) const_cast<int64_t*>(cell->data)[index] = sizes[index];
    return;
  }
  TVMFFIAny* items = array_value(value, count);
  auto made = reinterpret_cast<TVMFFISeqCell*>(value->v_obj + 1)->size;
  for (int64_t index = 0; index < made; ++index) integer_value(&items[index], sizes[index % count]);
}

// An even number of rows that are an even number of elements apart.
void strided_value(TVMFFIAny* value, int64_t n) {
  tensor_value(value, {kDLFloat, 32, 2, {static_cast<int64_t>(2 * (1 + below(3))), 0}}, n, chance(50));
  auto* tensor = value->type_index == kTVMFFITensor ? reinterpret_cast<DLTensor*>(value->v_obj + 1)
                                                    : static_cast<DLTensor*>(value->v_ptr);
  if (tensor->strides != nullptr && tensor->ndim == 2 && chance(90)) tensor->strides[0] = 8;
}

constexpr int kCount = 17;

// What the parameter at a position takes.
void valid_value(TVMFFIAny* value, int position, int64_t n, int64_t m) {
  static constexpr Wanted kMatrix{kDLFloat, 32, 2, {0, 4}}, kVector{kDLFloat, 32, 1, {0, 0}},
      kInner{kDLUInt, 8, 2, {-1, -1}}, kScalar{kDLBfloat, 16, 0, {0, 0}};
  const int64_t sizes[] = {n, m, 3};
  memset(value, 0, sizeof(*value));
  switch (position) {
    case 0:
      return tensor_value(value, kMatrix, n, chance(50));
    case 1:
      return tensor_value(value, kVector, n, chance(80));
    case 2:
      return tensor_value(value, kInner, n, chance(50));
    case 3:
      return integer_value(value, static_cast<int64_t>(below(100)));
    case 4:
      return chance(30) ? big_integer(value) : integer_value(value, static_cast<int64_t>(g_random() >> 1));
    case 5:
    case 6:
      return float_value(value);
    case 7:
      value->type_index = kTVMFFIBool;
      value->v_int64 = static_cast<int64_t>(below(2));
      return;
    case 8:
      return;
    case 9:
      return shape_value(value, sizes, 3);
    case 10:
      value->type_index = chance(50) ? kTVMFFIOpaquePtr : kTVMFFIInt;
      value->v_int64 = 0x1000;
      return;
    case 11: {
      TVMFFIAny* items = array_value(value, 3);
      if (reinterpret_cast<TVMFFISeqCell*>(value->v_obj + 1)->size != 3) return;
      integer_value(&items[0], 5);
      TVMFFIAny* inner = array_value(&items[1], 2);
      if (reinterpret_cast<TVMFFISeqCell*>(items[1].v_obj + 1)->size == 2) {
        tensor_value(&inner[0], kVector, n, chance(90));
        float_value(&inner[1]);
      }
      shape_value(&items[2], &m, 1);
      return;
    }
    case 12:
      value->type_index = chance(50) ? kTVMFFINone : kTVMFFIOpaquePtr;
      return;
    case 13:
      return tensor_value(value, kScalar, n, chance(50));
    case 14:
      return strided_value(value, n);
    case 15:
      return float_value(value);
    default:
      return integer_value(value, any_integer());
  }
}

void check_error() {
  TVMFFIObjectHandle error = nullptr;
  weft::ffi().error_move_from_raised(&error);
  if (error == nullptr) stop("-1 without an error");
  const auto* cell = reinterpret_cast<const TVMFFIErrorCell*>(static_cast<TVMFFIObject*>(error) + 1);
  if (cell->message.size < 2 || memcmp(cell->message.data, "f(", 2) != 0)
    stop("an error without the function");
  weft::ffi().object_dec_ref(error);
}

// Returns whether the call succeeded.
bool call_once() {
  g_fence.reset();
  g_object_count = g_owned_count = 0;
  auto n = static_cast<int64_t>(below(5)), m = static_cast<int64_t>(below(5));
  int32_t count = chance(97) ? kCount : static_cast<int32_t>(below(2 * kCount));
  auto* args = g_fence.take_array<TVMFFIAny>(static_cast<size_t>(count));
  int odd = chance(40) ? static_cast<int>(below(kCount)) : -1;
  for (int index = 0; index < count; ++index) {
    if (index == odd || index >= kCount) {
      any_value(&args[index], 0);
    } else {
      valid_value(&args[index], index, n, m);
    }
  }
  auto* result = g_fence.take_array<TVMFFIAny>(1);
  memset(result, 0, sizeof(*result));
  int32_t code = __tvm_ffi_f(chance(50) ? weft_state_of_object : nullptr, args, count, result);
  if (code == 0) {
    if (result->type_index != kTVMFFIArray) stop("a result that is not an array");
    weft::ffi().object_dec_ref(result->v_obj);
  } else if (code == -1) {
    check_error();
  } else {
    stop("a code that is neither 0 nor -1");
  }
  for (int index = 0; index < g_object_count; ++index) {
    if (g_objects[index]->combined_ref_count != kReferences) stop("a reference was not given back");
  }
  for (int index = 0; index < g_owned_count; ++index) weft::ffi().object_dec_ref(g_owned[index]);
  return code == 0;
}

// Rows that no wrapper for the CPU reaches here.
template <typename Row>
struct Unused;
template <typename Result, typename... Parameters>
struct Unused<Result (*)(Parameters...)> {
  static Result call(Parameters...) { stop("a row of the table that no wrapper needs"); }
};

weft_runtime_table make_table() {
  weft_runtime_table table{};
  table.version = WEFT_RUNTIME_TABLE_VERSION;
#define WEFT_ROW(name, result, parameters, llvm_type) table.name = Unused<decltype(table.name)>::call;
  WEFT_RUNTIME_TABLE(WEFT_ROW)
#undef WEFT_ROW
  table.fail = weft::fail;
  table.fail_any = weft::fail_any;
  table.fail_unless_empty = weft::fail_unless_empty;
  table.make_array = weft::make_array;
  table.return_argument = weft::return_argument;
  table.decode_u64 = weft::decode_u64;
  table.decode_shape = weft::decode_shape;
  table.narrow_float = weft::narrow_float;
  table.widen_float = weft::widen_float;
  table.make_u64 = weft::make_u64;
  table.release_values = weft::release_values;
  return table;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) stop("usage: fuzz_wrapper <calls> <seed>");
#define WEFT_ROW(member, symbol) weft::g_ffi_library.member = &::symbol;
  WEFT_FFI_FUNCTIONS(WEFT_ROW)
#undef WEFT_ROW
  weft::g_ffi_library.is_open = true;
  const weft_runtime_table table = make_table();
  weft_state state{&table, nullptr, nullptr, -1, WEFT_LOAD_LIBRARY};
  weft_state_of_object = &state;
  const long calls = atol(argv[1]);
  g_random.seed(strtoull(argv[2], nullptr, 0));
  long succeeded = 0;
  for (long call = 0; call < calls; ++call) succeeded += call_once() ? 1 : 0;
  printf("%ld calls, %ld succeeded\n", calls, succeeded);
  return 0;
}
