// RUN: ptx
// RUN: sass
// Shared memory has instructions for 32-bit integers, for exchange and for compare-and-swap; what it lacks becomes a
// loop in ptxas (CAST.SPIN). Extrema of f32 are integer instructions. Global memory has all but those of 16 bits.

// PTX-LABEL:      .entry words(
// PTX:            atom.shared.add.u32
// PTX:            atom.shared.max.s32
// PTX:            atom.shared.min.u32
// PTX:            atom.acquire.cta.shared.or.b32
// PTX:            atom.shared.exch.b32
// PTX:            atom.relaxed.cta.shared.cas.b32
// PTX-LABEL:      .entry halves(
// PTX:            atom.relaxed.gpu.shared.add.noftz.f16
// PTX:            atom.acq_rel.sys.global.add.noftz.f16
// PTX-LABEL:      .entry brains(
// PTX:            fence.sc.gpu;
// PTX:            atom.acquire.gpu.global.add.noftz.bf16

// SASS:           .text.floats:
// SASS-DAG:       ATOMS.MIN
// SASS-DAG:       ATOMS.MAX.S32
// SASS:           ATOMS.CAST.SPIN
// SASS:           .text.longs:
// SASS:           ATOMS.EXCH.64
// SASS:           ATOMS.CAS.64
// SASS:           ATOMS.CAST.SPIN.64
// SASS:           .text.words:
// SASS:           ATOMS.ADD
// SASS:           ATOMS.MAX.S32
// SASS:           ATOMS.MIN
// SASS:           ATOMS.OR
// SASS:           ATOMS.EXCH
// SASS:           ATOMS.CAS

simt.kernel @words(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = simt.shared at 0 : !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = simt.load %a[%zero : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %r0 = simt.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : i32, !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  simt.store %r0, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r1 = simt.atomic_rmw "max" "relaxed" "device" %v, %t[%n : i32] : i32, !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  simt.store %r1, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r2 = simt.atomic_rmw "umin" "relaxed" "device" %v, %t[%n : i32] : i32, !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  simt.store %r2, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r3 = simt.atomic_rmw "or" "acquire" "block" %v, %t[%n : i32] : i32, !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  simt.store %r3, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r4 = simt.atomic_rmw "exchange" "relaxed" "device" %v, %t[%n : i32] : i32, !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  simt.store %r4, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r5 = simt.atomic_cas "relaxed" "block" %v, %v, %t[%n : i32] : i32, i32, !simt.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  simt.store %r5, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
simt.kernel @longs(%a: !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = simt.shared at 0 : !simt.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = simt.load %a[%zero : i32] : !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8> -> i64
  %r0 = simt.atomic_rmw "exchange" "relaxed" "device" %v, %t[%n : i32] : i64, !simt.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i64
  simt.store %r0, %a[%zero : i32] : i64, !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %r1 = simt.atomic_cas "relaxed" "device" %v, %v, %t[%n : i32] : i64, i64, !simt.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i64
  simt.store %r1, %a[%zero : i32] : i64, !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %r2 = simt.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : i64, !simt.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i64
  simt.store %r2, %a[%zero : i32] : i64, !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  simt.return
}
simt.kernel @floats(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = simt.shared at 0 : !simt.tensor<f32, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = simt.load %a[%zero : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %r0 = simt.atomic_rmw "max" "relaxed" "device" %v, %t[%n : i32] : f32, !simt.tensor<f32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> f32
  simt.store %r0, %a[%zero : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r1 = simt.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : f32, !simt.tensor<f32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> f32
  simt.store %r1, %a[%zero : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
simt.kernel @halves(%a: !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = simt.shared at 0 : !simt.tensor<f16, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = simt.load %a[%zero : i32] : !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2> -> f16
  %r0 = simt.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : f16, !simt.tensor<f16, [8], contiguous, shared, dims 32, offsets 32, align 16> -> f16
  simt.store %r0, %a[%zero : i32] : f16, !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2>
  %r1 = simt.atomic_rmw "add" "acq_rel" "system" %v, %a[%n : i32] : f16, !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2> -> f16
  simt.store %r1, %a[%zero : i32] : f16, !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2>
  simt.return
}
simt.kernel @brains(%a: !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = simt.shared at 0 : !simt.tensor<bf16, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = simt.load %a[%zero : i32] : !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2> -> bf16
  %r0 = simt.atomic_rmw "add" "seq_cst" "device" %v, %a[%n : i32] : bf16, !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2> -> bf16
  simt.store %r0, %a[%zero : i32] : bf16, !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>
  simt.return
}
