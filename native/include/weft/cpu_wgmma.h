// SPDX-License-Identifier: Apache-2.0
//
// Descriptors of a warpgroup's wgmma that generated CPU kernels pass to the scheduler: a site's shape,
// constant, and each thread's operands, in its frame.
#ifndef WEFT_CPU_WGMMA_H_
#define WEFT_CPU_WGMMA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An operand: a swizzled tile in shared memory. An element lies at
// (column / atom) * atom_stride + row * atom + column % atom elements, and the address is XORed with
// (address >> 3) & mask. A fragment has an atom of 0.
typedef struct weft_wgmma_operand {
  int64_t atom_stride;  // elements
  int32_t type;         // enum weft_mma_type, of cpu_mma.h
  int32_t atom;         // columns of an atom
  int32_t mask;
  int32_t k_is_row;  // whether rows of the storage are steps along K
} weft_wgmma_operand;

// Shape of a wgmma, m x n x k; constant data.
typedef struct weft_wgmma_shape {
  int32_t m, n, k;
  int32_t sums;  // enum weft_mma_type: f32, i32 or f16
  weft_wgmma_operand a, b;
} weft_wgmma_shape;

// One thread's part of a wgmma.
typedef struct weft_wgmma_start {
  const weft_wgmma_shape* shape;
  const char* a;        // the tile, or the thread's elements of the fragment
  const char* b;        // the tile
  char* sums;           // the thread's elements of the accumulator; unused while a wgmma of it is in flight
  int64_t handle;       // in: the wgmma in flight whose sums these are, 0, or -1: nothing; out: this one
  int32_t accumulates;  // whether it adds to the sums
  int32_t padding;
} weft_wgmma_start;

// A fragment that a thread waits for.
typedef struct weft_wgmma_fragment {
  char* sums;      // receives its elements if its wgmma is completed
  int64_t handle;  // of its wgmma, 0, or -1: it holds nothing; becomes 0 when its wgmma is completed
} weft_wgmma_fragment;

// One thread's part of a wait; its fragments follow.
typedef struct weft_wgmma_wait {
  int32_t pending;  // how many of the newest wgmmas may stay in flight
  int32_t count;    // of fragments
} weft_wgmma_wait;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // WEFT_CPU_WGMMA_H_
