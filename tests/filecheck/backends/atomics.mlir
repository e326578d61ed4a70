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

cuda.kernel @words(%a: !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = cuda.shared at 0 : !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = cuda.load %a[%zero : i32] : !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %r0 = cuda.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : i32, !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  cuda.store %r0, %a[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r1 = cuda.atomic_rmw "max" "relaxed" "device" %v, %t[%n : i32] : i32, !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  cuda.store %r1, %a[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r2 = cuda.atomic_rmw "umin" "relaxed" "device" %v, %t[%n : i32] : i32, !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  cuda.store %r2, %a[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r3 = cuda.atomic_rmw "or" "acquire" "block" %v, %t[%n : i32] : i32, !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  cuda.store %r3, %a[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r4 = cuda.atomic_rmw "exchange" "relaxed" "device" %v, %t[%n : i32] : i32, !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  cuda.store %r4, %a[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r5 = cuda.atomic_cas "relaxed" "block" %v, %v, %t[%n : i32] : i32, i32, !cuda.tensor<i32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i32
  cuda.store %r5, %a[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  cuda.return
}
cuda.kernel @longs(%a: !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = cuda.shared at 0 : !cuda.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = cuda.load %a[%zero : i32] : !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8> -> i64
  %r0 = cuda.atomic_rmw "exchange" "relaxed" "device" %v, %t[%n : i32] : i64, !cuda.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i64
  cuda.store %r0, %a[%zero : i32] : i64, !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %r1 = cuda.atomic_cas "relaxed" "device" %v, %v, %t[%n : i32] : i64, i64, !cuda.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i64
  cuda.store %r1, %a[%zero : i32] : i64, !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %r2 = cuda.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : i64, !cuda.tensor<i64, [8], contiguous, shared, dims 32, offsets 32, align 16> -> i64
  cuda.store %r2, %a[%zero : i32] : i64, !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  cuda.return
}
cuda.kernel @floats(%a: !cuda.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = cuda.shared at 0 : !cuda.tensor<f32, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = cuda.load %a[%zero : i32] : !cuda.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %r0 = cuda.atomic_rmw "max" "relaxed" "device" %v, %t[%n : i32] : f32, !cuda.tensor<f32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> f32
  cuda.store %r0, %a[%zero : i32] : f32, !cuda.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %r1 = cuda.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : f32, !cuda.tensor<f32, [8], contiguous, shared, dims 32, offsets 32, align 16> -> f32
  cuda.store %r1, %a[%zero : i32] : f32, !cuda.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  cuda.return
}
cuda.kernel @halves(%a: !cuda.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = cuda.shared at 0 : !cuda.tensor<f16, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = cuda.load %a[%zero : i32] : !cuda.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2> -> f16
  %r0 = cuda.atomic_rmw "add" "relaxed" "device" %v, %t[%n : i32] : f16, !cuda.tensor<f16, [8], contiguous, shared, dims 32, offsets 32, align 16> -> f16
  cuda.store %r0, %a[%zero : i32] : f16, !cuda.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2>
  %r1 = cuda.atomic_rmw "add" "acq_rel" "system" %v, %a[%n : i32] : f16, !cuda.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2> -> f16
  cuda.store %r1, %a[%zero : i32] : f16, !cuda.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 2>
  cuda.return
}
cuda.kernel @brains(%a: !cuda.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>, %n: i32) {
  %zero = arith.constant 0 : i32
  %t = cuda.shared at 0 : !cuda.tensor<bf16, [8], contiguous, shared, dims 32, offsets 32, align 16>
  %v = cuda.load %a[%zero : i32] : !cuda.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2> -> bf16
  %r0 = cuda.atomic_rmw "add" "seq_cst" "device" %v, %a[%n : i32] : bf16, !cuda.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2> -> bf16
  cuda.store %r0, %a[%zero : i32] : bf16, !cuda.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>
  cuda.return
}
