// SPDX-License-Identifier: Apache-2.0
//
// What the calls are measured with: functions of the TVM-FFI ABI that do nothing, give their argument back,
// call back or fail, and the same nothing for ctypes and cffi.
#include <tvm/ffi/c_api.h>

int nothing(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  (void)self, (void)arguments, (void)count, (void)result;
  return 0;
}

int echo(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  (void)self, (void)count;
  return TVMFFIAnyViewToOwnedAny(&arguments[0], result);
}

// Calls the first argument as often as the second says, with the rest.
int call_repeatedly(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  (void)self, (void)result;
  for (int64_t index = 0; index < arguments[1].v_int64; ++index) {
    TVMFFIAny answer = {0};
    int code = TVMFFIFunctionCall(arguments[0].v_obj, (TVMFFIAny*)&arguments[2], count - 2, &answer);
    if (code != 0) return code;
    if (answer.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(answer.v_obj);
  }
  return 0;
}

int fail(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  (void)self, (void)arguments, (void)count, (void)result;
  TVMFFIByteArray kind = {"ValueError", 10}, message = {"shape[0] is 12, expected 10", 27}, nothing = {"", 0};
  TVMFFIObjectHandle error;
  if (TVMFFIErrorCreate(&kind, &message, &nothing, &error) != 0) return -1;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
}

// As most code of the ABI raises: with a native backtrace.
int fail_with_backtrace(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  (void)self, (void)arguments, (void)count, (void)result;
  TVMFFIErrorSetRaisedFromCStr("ValueError", "shape[0] is 12, expected 10");
  return -1;
}

void plain0(void) {}
void plain1(long a) { (void)a; }
void plain3(long a, long b, long c) { (void)a, (void)b, (void)c; }
