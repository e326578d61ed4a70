// RUN: check_accesses
// A check stands before each access: of 64-bit indices, in which sums do not wrap; the last index is compared with a bound
// that is 0 where another one is out of bounds. A view's element has an index in the viewed array, too. Nothing stands
// before an access that is known to be in bounds, or one through a pointer.

// CHECK_ACCESSES:      simt.kernel @sum(
// CHECK_ACCESSES-NEXT:   %one = arith.constant 1 : i32
// CHECK_ACCESSES-NEXT:   %i = simt.thread_idx "x" : i32
// CHECK_ACCESSES-NEXT:   %next = arith.addi %i, %one overflow<nsw> : i32
// CHECK_ACCESSES-NEXT:   %0 = arith.extsi %i : i32 to i64
// CHECK_ACCESSES-NEXT:   %1 = arith.constant 1 : i64
// CHECK_ACCESSES-NEXT:   %2 = arith.addi %0, %1 : i64
// CHECK_ACCESSES-NEXT:   %3 = simt.dim %a[0]
// CHECK_ACCESSES-NEXT:   %4 = arith.extsi %3 : i32 to i64
// CHECK_ACCESSES-NEXT:   %5 = arith.cmpi ult, %2, %4 : i64
// CHECK_ACCESSES-NEXT:   %6 = simt.dim %a[0]
// CHECK_ACCESSES-NEXT:   %7 = arith.extsi %6 : i32 to i64
// CHECK_ACCESSES-NEXT:   simt.check %5, "out_of_bounds" "" "read" 1 values(%2, %7)
// CHECK_ACCESSES-NEXT:   %x = simt.load %a[%next : i32]
// CHECK_ACCESSES-NEXT:   simt.return
// CHECK_ACCESSES:      simt.kernel @matrix(
// CHECK_ACCESSES-NEXT:   %i = simt.thread_idx "x" : i32
// CHECK_ACCESSES-NEXT:   %0 = arith.extsi %row : i32 to i64
// CHECK_ACCESSES-NEXT:   %1 = arith.extsi %i : i32 to i64
// CHECK_ACCESSES-NEXT:   %2 = simt.dim %m[0]
// CHECK_ACCESSES-NEXT:   %3 = arith.cmpi ult, %row, %2 : i32
// CHECK_ACCESSES-NEXT:   %4 = arith.constant 8 : i32
// CHECK_ACCESSES-NEXT:   %5 = arith.extsi %3 : i1 to i32
// CHECK_ACCESSES-NEXT:   %6 = arith.minui %4, %5 : i32
// CHECK_ACCESSES-NEXT:   %7 = arith.cmpi ult, %i, %6 : i32
// CHECK_ACCESSES-NEXT:   %8 = simt.dim %m[0]
// CHECK_ACCESSES-NEXT:   %9 = arith.extsi %8 : i32 to i64
// CHECK_ACCESSES-NEXT:   %10 = arith.constant 8 : i64
// CHECK_ACCESSES-NEXT:   simt.check %7, "out_of_bounds" "" "written" 1 values(%0, %1, %9, %10)
// CHECK_ACCESSES-NEXT:   simt.store %x, %m[%row, %i : i32, i32] : f32, !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 32, align 4>
// CHECK_ACCESSES-NEXT:   simt.return
// CHECK_ACCESSES:      simt.kernel @view(
// CHECK_ACCESSES-NEXT:   %zero = arith.constant 0 : i32
// CHECK_ACCESSES-NEXT:   %part = simt.view %m[%i, %zero : i32, i32] keeps [1] steps [1]
// CHECK_ACCESSES-NEXT:   %0 = arith.constant 0 : i64
// CHECK_ACCESSES-NEXT:   %1 = arith.extsi %i : i32 to i64
// CHECK_ACCESSES-NEXT:   %2 = arith.constant 0 : i64
// CHECK_ACCESSES-NEXT:   %3 = arith.addi %2, %0 : i64
// CHECK_ACCESSES-NEXT:   %4 = simt.dim %m[0]
// CHECK_ACCESSES-NEXT:   %5 = arith.cmpi ult, %i, %4 : i32
// CHECK_ACCESSES-NEXT:   %6 = simt.dim %m[0]
// CHECK_ACCESSES-NEXT:   %7 = arith.extsi %6 : i32 to i64
// CHECK_ACCESSES-NEXT:   %8 = arith.constant 8 : i64
// CHECK_ACCESSES-NEXT:   simt.check %5, "out_of_bounds" "m" "written" 1 values(%1, %3, %7, %8)
// CHECK_ACCESSES-NEXT:   simt.store %x, %part[%zero : i32] : f32, !simt.tensor<f32, [8], contiguous, global, dims 32, offsets 32, align 4>
// CHECK_ACCESSES-NEXT:   simt.return
// CHECK_ACCESSES:      simt.kernel @pointer(
// CHECK_ACCESSES-NEXT:   simt.store %x, %p[%i : i32] : f32, !simt.tensor<f32, [*], contiguous, global, dims 64, offsets 64, align 4>
// CHECK_ACCESSES-NEXT:   simt.return

simt.kernel @sum(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>) {
  %one = arith.constant 1 : i32
  %i = simt.thread_idx "x" : i32
  %next = arith.addi %i, %one overflow<nsw> : i32
  %x = simt.load %a[%next : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> -> f32
  simt.return
}
simt.kernel @matrix(%m: !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 32, align 4>, %row: i32, %x: f32) {
  %i = simt.thread_idx "x" : i32
  simt.store %x, %m[%row, %i : i32, i32] : f32, !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 32, align 4>
  simt.return
}
simt.kernel @view(%m: !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 32, align 4>, %i: i32, %x: f32) {
  %zero = arith.constant 0 : i32
  %part = simt.view %m[%i, %zero : i32, i32] keeps [1] steps [1] : !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 32, align 4> -> !simt.tensor<f32, [8], contiguous, global, dims 32, offsets 32, align 4>
  simt.store %x, %part[%zero : i32] : f32, !simt.tensor<f32, [8], contiguous, global, dims 32, offsets 32, align 4>
  simt.return
}
simt.kernel @pointer(%p: !simt.tensor<f32, [*], contiguous, global, dims 64, offsets 64, align 4>, %i: i32, %x: f32) {
  simt.store %x, %p[%i : i32] : f32, !simt.tensor<f32, [*], contiguous, global, dims 64, offsets 64, align 4>
  simt.return
}
