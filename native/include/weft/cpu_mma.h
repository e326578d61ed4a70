// SPDX-License-Identifier: Apache-2.0
//
// Descriptors of a warp's mma that generated CPU kernels pass to the scheduler: its shape, constant, and each
// lane's operands.
#ifndef WEFT_CPU_MMA_H_
#define WEFT_CPU_MMA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The elements of fragments; the order is the ABI.
// clang-format off: it never ends with this list
#define WEFT_MMA_TYPES(ROW) ROW(bf16) ROW(f16) ROW(tf32) ROW(f32) ROW(f64) ROW(f8e4m3) ROW(f8e5m2) ROW(i8) ROW(u8) ROW(i32)
// clang-format on

enum weft_mma_type {
#define WEFT_ROW(name) WEFT_MMA_##name,
  WEFT_MMA_TYPES(WEFT_ROW)
#undef WEFT_ROW
};

// D = A · B + C: `rows` x `depth`, `depth` x `columns`; constant data.
typedef struct weft_mma_shape {
  int32_t rows, columns, depth;
  int32_t a, b, c;    // enum weft_mma_type
  int32_t is_sparse;  // A has `depth` / 2 columns, and metadata says where they are
} weft_mma_shape;

// One lane's elements, in the order of weft/types/fragment_layout.py. D may be C.
typedef struct weft_mma_operands {
  const weft_mma_shape* shape;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  const uint32_t* metadata;  // of a sparse A
} weft_mma_operands;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // WEFT_CPU_MMA_H_
