// RUN: skip_bad_accesses
// An access stands under all of its checks, whatever they compute between them; a read that is left out is 0, of whatever type. What has no check stays, and what has one that ends the launch. What is assumed is checked.

// SKIP_BAD_ACCESSES:      simt.kernel @half(%a: !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2>, %first: i1, %second: i1, %wide: i64) {
// SKIP_BAD_ACCESSES-NEXT:   %i = simt.thread_idx "x" : i32
// SKIP_BAD_ACCESSES-NEXT:   simt.check %first, "out_of_bounds" "" "read" 1 values(%wide, %wide)
// SKIP_BAD_ACCESSES-NEXT:   %row = arith.extsi %i : i32 to i64
// SKIP_BAD_ACCESSES-NEXT:   simt.check %second, "out_of_bounds" "" "read" 1 values(%row, %wide)
// SKIP_BAD_ACCESSES-NEXT:   %0 = arith.andi %first, %second : i1
// SKIP_BAD_ACCESSES-NEXT:   %x = scf.if %0 -> (f16) {
// SKIP_BAD_ACCESSES-NEXT:     %x_1 = simt.load %a[%i, %i : i32, i32] : !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2> -> f16
// SKIP_BAD_ACCESSES-NEXT:     scf.yield %x_1 : f16
// SKIP_BAD_ACCESSES-NEXT:   } else {
// SKIP_BAD_ACCESSES-NEXT:     %1 = arith.constant 0.000000e+00 : f16
// SKIP_BAD_ACCESSES-NEXT:     scf.yield %1 : f16
// SKIP_BAD_ACCESSES-NEXT:   }
// SKIP_BAD_ACCESSES-NEXT:   simt.check ends %second, "out_of_bounds" "" "written" 1 values(%wide, %wide)
// SKIP_BAD_ACCESSES-NEXT:   simt.store %x, %a[%i, %i : i32, i32] : f16, !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2>
// SKIP_BAD_ACCESSES-NEXT:   simt.check %first, "out_of_bounds" "" "written" 1 values(%wide, %wide)
// SKIP_BAD_ACCESSES-NEXT:   scf.if %first {
// SKIP_BAD_ACCESSES-NEXT:     simt.store %x, %a[%i, %i : i32, i32] : f16, !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2>
// SKIP_BAD_ACCESSES-NEXT:   }
// SKIP_BAD_ACCESSES-NEXT:   simt.assume checked %first
// SKIP_BAD_ACCESSES-NEXT:   simt.return
// SKIP_BAD_ACCESSES-NEXT: }

simt.kernel @half(%a: !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2>, %first: i1, %second: i1, %wide: i64) {
  %i = simt.thread_idx "x" : i32
  simt.check %first, "out_of_bounds" "" "read" 1 values(%wide, %wide)
  %row = arith.extsi %i : i32 to i64
  simt.check %second, "out_of_bounds" "" "read" 1 values(%row, %wide)
  %x = simt.load %a[%i, %i : i32, i32] : !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2> -> f16
  simt.check ends %second, "out_of_bounds" "" "written" 1 values(%wide, %wide)
  simt.store %x, %a[%i, %i : i32, i32] : f16, !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2>
  simt.check %first, "out_of_bounds" "" "written" 1 values(%wide, %wide)
  simt.store %x, %a[%i, %i : i32, i32] : f16, !simt.tensor<f16, [?, ?], contiguous, global, dims 32, offsets 32, align 2>
  simt.assume %first
  simt.return
}
