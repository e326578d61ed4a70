// SPDX-License-Identifier: Apache-2.0
//
// A program in C that calls a compiled function by its symbol. It reads its
// arguments from a text and makes every value with the FFI's own C interface:
//
//   n  i<int>  b<0|1>  f<float>  s<text>  p<hex address>  u<unsigned>
//   a<count> <items>   an ffi.Array       h<count> <ints>   an ffi.Shape
//   t<device type> <device> <code> <bits> <lanes> <address> <byte offset>
//     <has strides> <rank> <shape> <strides>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

typedef int32_t (*Entry)(void *handle, const TVMFFIAny *args, int32_t num_args,
                         TVMFFIAny *result);

enum { kMostValues = 64, kMostRank = 16 };

// What one call holds on to.
typedef struct {
  const char *text;
  DLManagedTensor tensors[kMostValues];
  int64_t dims[kMostValues][2 * kMostRank];
  int tensor_count;
  TVMFFIObjectHandle owned[kMostValues];
  int owned_count;
} Reader;

static long long read_int(Reader *reader) {
  char *end;
  long long value = strtoll(reader->text, &end, 0);
  reader->text = end;
  return value;
}

static char read_letter(Reader *reader) {
  while (*reader->text == ' ')
    ++reader->text;
  return *reader->text++;
}

static void own(Reader *reader, const TVMFFIAny *value) {
  if (value->type_index >= kTVMFFIStaticObjectBegin)
    reader->owned[reader->owned_count++] = value->v_obj;
}

static void construct(const char *name, TVMFFIAny *values, int32_t count,
                      TVMFFIAny *result) {
  TVMFFIByteArray key = {name, strlen(name)};
  TVMFFIObjectHandle function = NULL;
  memset(result, 0, sizeof(*result));
  if (TVMFFIFunctionGetGlobal(&key, &function) != 0 || function == NULL ||
      TVMFFIFunctionCall(function, values, count, result) != 0)
    abort();
  TVMFFIObjectDecRef(function);
}

static void keep_nothing(DLManagedTensor *tensor) { (void)tensor; }

static void read_tensor(Reader *reader, int inside, TVMFFIAny *value) {
  int index = reader->tensor_count++;
  DLManagedTensor *managed = &reader->tensors[index];
  DLTensor *tensor = &managed->dl_tensor;
  managed->deleter = keep_nothing;
  tensor->device.device_type = (DLDeviceType)read_int(reader);
  tensor->device.device_id = (int32_t)read_int(reader);
  tensor->dtype.code = (uint8_t)read_int(reader);
  tensor->dtype.bits = (uint8_t)read_int(reader);
  tensor->dtype.lanes = (uint16_t)read_int(reader);
  tensor->data = (void *)(intptr_t)read_int(reader);
  tensor->byte_offset = (uint64_t)read_int(reader);
  int has_strides = (int)read_int(reader);
  tensor->ndim = (int32_t)read_int(reader);
  tensor->shape = reader->dims[index];
  tensor->strides = has_strides ? reader->dims[index] + kMostRank : NULL;
  for (int axis = 0; axis < tensor->ndim; ++axis)
    tensor->shape[axis] = read_int(reader);
  for (int axis = 0; has_strides && axis < tensor->ndim; ++axis)
    tensor->strides[axis] = read_int(reader);
  value->type_index = kTVMFFIDLTensorPtr;
  value->v_ptr = tensor;
  if (!inside)
    return;
  // An array owns what it holds.
  TVMFFIObjectHandle object = NULL;
  if (TVMFFITensorFromDLPack(managed, 0, 0, &object) != 0)
    abort();
  value->type_index = kTVMFFITensor;
  value->v_obj = (TVMFFIObject *)object;
  own(reader, value);
}

static void read_unsigned(Reader *reader, TVMFFIAny *value) {
  char *end;
  uint64_t words[2] = {strtoull(reader->text, &end, 0), 0};
  TVMFFIByteArray content = {(const char *)words, sizeof(words)};
  reader->text = end;
  if (TVMFFIBigIntFromByteArray(&content, value) != 0)
    abort();
  own(reader, value);
}

static void read_value(Reader *reader, int inside, TVMFFIAny *value) {
  memset(value, 0, sizeof(*value));
  char letter = read_letter(reader);
  char *end;
  switch (letter) {
  case 'n':
    return;
  case 'i':
    value->type_index = kTVMFFIInt;
    value->v_int64 = read_int(reader);
    return;
  case 'b':
    value->type_index = kTVMFFIBool;
    value->v_int64 = read_int(reader);
    return;
  case 'f':
    value->type_index = kTVMFFIFloat;
    value->v_float64 = strtod(reader->text, &end);
    reader->text = end;
    return;
  case 's':
    value->type_index = kTVMFFISmallStr;
    while (*reader->text != ' ' && *reader->text != 0)
      value->v_bytes[value->small_str_len++] = *reader->text++;
    return;
  case 'p':
    value->type_index = kTVMFFIOpaquePtr;
    value->v_ptr = (void *)(intptr_t)read_int(reader);
    return;
  case 'u':
    read_unsigned(reader, value);
    return;
  case 't':
    read_tensor(reader, inside, value);
    return;
  case 'a':
  case 'h': {
    TVMFFIAny items[kMostValues];
    int32_t count = (int32_t)read_int(reader);
    for (int32_t index = 0; index < count; ++index)
      read_value(reader, 1, &items[index]);
    construct(letter == 'a' ? "ffi.Array" : "ffi.Shape", items, count, value);
    own(reader, value);
    return;
  }
  default:
    fprintf(stderr, "no value begins with '%c'\n", letter);
    abort();
  }
}

static int write_value(const TVMFFIAny *value, char *text, size_t room) {
  switch (value->type_index) {
  case kTVMFFINone:
    return snprintf(text, room, "None");
  case kTVMFFIInt:
    return snprintf(text, room, "%lld", (long long)value->v_int64);
  case kTVMFFIBool:
    return snprintf(text, room, value->v_int64 ? "True" : "False");
  case kTVMFFIFloat:
    return snprintf(text, room, "%.17g", value->v_float64);
  case kTVMFFITensor:
    return snprintf(text, room, "tensor");
  case kTVMFFIArray: {
    const TVMFFISeqCell *cell = (const TVMFFISeqCell *)(value->v_obj + 1);
    int used = snprintf(text, room, "(");
    for (int64_t index = 0; index < cell->size; ++index) {
      if (index > 0)
        used += snprintf(text + used, room - used, ", ");
      used += write_value((const TVMFFIAny *)cell->data + index, text + used,
                          room - used);
    }
    return used + snprintf(text + used, room - used, ")");
  }
  default:
    return snprintf(text, room, "type %d", value->type_index);
  }
}

static void write_error(char *text, size_t room) {
  TVMFFIObjectHandle error;
  TVMFFIErrorMoveFromRaised(&error);
  const TVMFFIErrorCell *cell =
      (const TVMFFIErrorCell *)((TVMFFIObject *)error + 1);
  snprintf(text, room, "%.*s: %.*s", (int)cell->kind.size, cell->kind.data,
           (int)cell->message.size, cell->message.data);
  TVMFFIObjectDecRef(error);
}

// Calls the function with the values of a text; what it returns, or the kind
// and message of its error, is written to `answer`. Returns the function's code.
int32_t call_with_text(Entry entry, const char *text, int32_t count,
                       char *answer, size_t room) {
  Reader *reader = calloc(1, sizeof(Reader));
  TVMFFIAny args[kMostValues], result;
  memset(&result, 0, sizeof(result));
  reader->text = text;
  for (int32_t index = 0; index < count; ++index)
    read_value(reader, 0, &args[index]);
  int32_t code = entry(NULL, args, count, &result);
  if (code != 0)
    write_error(answer, room);
  else
    write_value(&result, answer, room);
  if (code == 0 && result.type_index >= kTVMFFIStaticObjectBegin)
    TVMFFIObjectDecRef(result.v_obj);
  for (int index = 0; index < reader->owned_count; ++index)
    TVMFFIObjectDecRef(reader->owned[index]);
  free(reader);
  return code;
}
