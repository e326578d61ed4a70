// RUN: ptx
// RUN: ptx-sm60
// RUN: sass
// Since sm_70 a load and a store have their order and scope in the instruction; before, fences stand around them.

// PTX:                 .entry accesses(
// PTX:                 ld.acquire.gpu.global.b32
// PTX:                 ld.relaxed.cta.global.b32
// PTX:                 fence.sc.sys;
// PTX:                 ld.acquire.sys.global.b32
// PTX:                 ld.volatile.global.b32
// PTX:                 st.release.gpu.global.b32
// PTX:                 st.volatile.global.b32

// PTX-SM60:            .entry accesses(
// PTX-SM60:            ld.volatile.global.b32
// PTX-SM60:            membar.gl;
// PTX-SM60:            ld.volatile.global.b32
// PTX-SM60:            membar.sys;
// PTX-SM60:            ld.volatile.global.b32
// PTX-SM60:            membar.gl;
// PTX-SM60:            st.volatile.global.b32

// SASS:                .text.accesses:
// SASS:                LDG.E.STRONG.GPU
// SASS:                LDG.E.STRONG.SM
// SASS:                MEMBAR.SC.SYS
// SASS:                LDG.E.STRONG.SYS
// SASS:                STG.E.STRONG.GPU

simt.kernel @accesses(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %v0 = simt.atomic_load "acquire" "device" %a[%c0 : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %v1 = simt.atomic_load "relaxed" "block" %a[%c1 : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %v2 = simt.atomic_load "seq_cst" "system" %a[%c2 : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %v3 = simt.load volatile %a[%c3 : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %s0 = arith.addi %v0, %v1 : i32
  %s1 = arith.addi %s0, %v2 : i32
  %s2 = arith.addi %s1, %v3 : i32
  simt.atomic_store "release" "device" %s2, %a[%c0 : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.store volatile %s2, %a[%c1 : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
