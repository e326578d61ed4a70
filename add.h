/* Functions made by weft 0.1.0: the C ABI of TVM-FFI.
 *
 * `arguments` are borrowed. 0 is success, and the result is in `result`, which the caller owns; -1 is an error, which
 * TVMFFIErrorMoveFromRaised gives. `handle` is NULL. A tensor is a DLTensor* (kTVMFFIDLTensorPtr) or an ffi.Tensor;
 * work on a GPU runs on the stream of TVMFFIEnvGetStream. Thread-safe.
 */
#ifndef WEFT_ADD_H_
#define WEFT_ADD_H_

#include <stdint.h>
#include <tvm/ffi/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* add(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])
 *
 * arguments[0]: a: Tensor[f32, (n,)]
 * arguments[1]: b: Tensor[f32, (n,)], written
 */
int32_t __tvm_ffi_add(void* handle, const TVMFFIAny* arguments, int32_t count,
    TVMFFIAny* result);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  /* WEFT_ADD_H_ */
