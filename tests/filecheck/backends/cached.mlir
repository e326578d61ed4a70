// RUN: llvm-cuda
// RUN: llvm-cpu
// RUN: ptx
// RUN: sass
// Hints for the caches are words of PTX, in words of 4 or 8 bytes; the policy of the L2 cache is made once. A CPU has none.

// LLVM-CUDA:      asm "createpolicy.fractional.L2::evict_first.b64 $0;", "=l"() memory(none)
// LLVM-CUDA:      asm sideeffect "st.global.L1::no_allocate.b8 [$0], $1;", "l,h"({{.*}}) memory(argmem: write)

// LLVM-CPU-NOT:   asm
// LLVM-CPU:       load <8 x i16>, ptr %{{.*}}, align 16

// PTX:            createpolicy.fractional.L2::evict_first.b64 [[POLICY:%rd[0-9]+]]
// PTX:            ld.global.L2::cache_hint.v4.b32 {{.*}}, [%rd{{[0-9]+}}], [[POLICY]];
// PTX:            st.global.L2::cache_hint.v4.b32 [%rd{{[0-9]+}}], {{.*}}, [[POLICY]];
// PTX-NOT:        createpolicy
// PTX:            ld.global.cs.b16
// PTX:            st.global.cg.b16
// PTX:            ld.global.lu.b8
// PTX:            st.global.L1::no_allocate.b8

// SASS:           LDG.E.128
// SASS:           STG.E.128
// SASS:           LDG.E.EF.U16
// SASS:           STG.E.U16.STRONG.GPU
// SASS:           LDG.E.LU.U8
// SASS:           STG.E.NA.U8

simt.kernel @cached(%a: !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16>, %flags: !simt.tensor<i1, [?], contiguous, global, dims 32, offsets 64, align 1>, %i: i32, %j: i32) {
  %0, %1, %2, %3, %4, %5, %6, %7 = simt.load_vector cache "evict_first" %a[%i : i32] : !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16> -> f16, f16, f16, f16, f16, f16, f16, f16
  simt.store_vector cache "evict_first" %7, %6, %5, %4, %3, %2, %1, %0 : f16, f16, f16, f16, f16, f16, f16, f16 into %a[%j : i32] : !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16>
  %x = simt.load cache "streaming" %a[%i : i32] : !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16> -> f16
  simt.store cache "l2_only" %x, %a[%j : i32] : f16, !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16>
  %y = simt.load cache "last_use" %flags[%i : i32] : !simt.tensor<i1, [?], contiguous, global, dims 32, offsets 64, align 1> -> i1
  simt.store cache "no_allocate" %y, %flags[%j : i32] : i1, !simt.tensor<i1, [?], contiguous, global, dims 32, offsets 64, align 1>
  simt.return
}
