// RUN: split_addresses
// What the sums of an index consist of, marked, is added to the address in steps: what stays the same in the loops around,
// what loops change, constants times strides; constants of known strides are left to the access. Adjacent accesses share steps. What is
// not marked is left alone, as is what has parts of one kind only; a sum that is used elsewhere too may wrap. On a GPU, steps
// that several branches share are taken before them, in the innermost loop; those of one branch stay there.

// SPLIT_ADDRESSES:      simt.kernel @stencil(
// SPLIT_ADDRESSES-DAG:    %[[ZERO:.*]] = arith.constant 0 : i64
// SPLIT_ADDRESSES-DAG:    %[[ONE:.*]] = arith.constant 1 : i64
// SPLIT_ADDRESSES-DAG:    %[[TWO:.*]] = arith.constant 2 : i64
// SPLIT_ADDRESSES-DAG:    %[[LESS:.*]] = arith.constant -1 : i64
// SPLIT_ADDRESSES:        %[[HERE:.*]] = simt.advance %a[%y, %x : i32, i32]
// SPLIT_ADDRESSES-NEXT:   %[[UP:.*]] = simt.advance %[[HERE]][%[[LESS]], %[[ZERO]] : i64, i64]
// SPLIT_ADDRESSES-NEXT:   %corner = simt.load %[[UP]][%[[ZERO]], %[[TWO]] : i64, i64]
// SPLIT_ADDRESSES-NEXT:   simt.store %corner, %[[HERE]][%[[ONE]], %[[ZERO]] : i64, i64]
// SPLIT_ADDRESSES-NEXT:   simt.return
// SPLIT_ADDRESSES:      simt.kernel @loops(
// SPLIT_ADDRESSES-DAG:    %[[ZERO:.*]] = arith.constant 0 : i64
// SPLIT_ADDRESSES-DAG:    %[[ONE:.*]] = arith.constant 1 : i64
// SPLIT_ADDRESSES:            %same = arith.muli %t, %t : i32
// SPLIT_ADDRESSES-NEXT:       %[[OF_T:.*]] = simt.advance %a[%same, %[[ZERO]] : i32, i64]
// SPLIT_ADDRESSES-NEXT:       %[[OF_I:.*]] = simt.advance %[[OF_T]][%[[ZERO]], %i : i64, i32]
// SPLIT_ADDRESSES-NEXT:       %[[OF_K:.*]] = simt.advance %[[OF_I]][%k, %[[ZERO]] : i32, i64]
// SPLIT_ADDRESSES-NEXT:       %value = simt.load %[[OF_K]][%[[ONE]], %[[ZERO]] : i64, i64]
// SPLIT_ADDRESSES-NEXT:       simt.store %value, %[[OF_K]][%[[ONE]], %[[ZERO]] : i64, i64]
// SPLIT_ADDRESSES:      simt.kernel @products(
// SPLIT_ADDRESSES:        %[[PLACE:.*]] = arith.addi %{{.*}}, %{{.*}} : i64
// SPLIT_ADDRESSES-NEXT:   %[[HERE:.*]] = simt.advance %p[%[[PLACE]] : i64]
// SPLIT_ADDRESSES-NEXT:   %[[WIDTH:.*]] = arith.extsi %width : i32 to i64
// SPLIT_ADDRESSES-NEXT:   %[[ROWS:.*]] = arith.muli %{{.*}}, %[[WIDTH]] : i64
// SPLIT_ADDRESSES-NEXT:   %{{.*}} = simt.atomic_rmw "add" "relaxed" "device" %x, %[[HERE]][%[[ROWS]] : i64]
// SPLIT_ADDRESSES:      simt.kernel @stays(
// SPLIT_ADDRESSES:        %wraps = arith.addi %y, %one : i32
// SPLIT_ADDRESSES-NEXT:   %both = arith.addi %x, %y overflow<nsw> : i32
// SPLIT_ADDRESSES-NEXT:   %value = simt.load %a[%wraps, %both : i32, i32]
// SPLIT_ADDRESSES-NEXT:   %next = arith.addi %x, %one : i32
// SPLIT_ADDRESSES-NEXT:   %{{.*}} = simt.advance %a[%y, %x : i32, i32]{{.*}} -> !simt.tensor<f32, [?, ?], strided, shared, dims 32, offsets 64, align 1>
// SPLIT_ADDRESSES:      simt.kernel @guarded(
// SPLIT_ADDRESSES:          %[[ROW:.*]] = arith.addi %y, %x overflow<nsw> : i32
// SPLIT_ADDRESSES-NEXT:     %[[SHARED:.*]] = simt.advance %a[%[[ROW]], %{{.*}} : i32, i64]
// SPLIT_ADDRESSES-NEXT:     scf.if %p {
// SPLIT_ADDRESSES-NEXT:       %value = simt.load %[[SHARED]][%{{.*}}, %i : i64, i32]
// SPLIT_ADDRESSES:          scf.if %q {
// SPLIT_ADDRESSES-NEXT:       %[[HERE:.*]] = simt.advance %[[SHARED]][%{{.*}}, %i : i64, i32]
// SPLIT_ADDRESSES-NEXT:       simt.store %half, %[[HERE]][%{{.*}}, %{{.*}} : i64, i64]
// SPLIT_ADDRESSES-NEXT:       %[[ALONE:.*]] = simt.advance %b[%y, %x : i32, i32]
// SPLIT_ADDRESSES-NEXT:       simt.store %half, %[[ALONE]]

simt.kernel @stencil(%a : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>, %y : i32, %x : i32) {
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %up = arith.subi %y, %one overflow<nsw> : i32
  %right = arith.addi %x, %two overflow<nsw> : i32
  %corner = simt.load %a[%up, %right : i32, i32] : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %down = arith.addi %one, %y overflow<nsw> : i32
  simt.store %corner, %a[%down, %x : i32, i32] : f32, !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
simt.kernel @loops(%a : !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 64, align 4>, %n : i32, %t : i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    scf.for %k = %zero to %n step %one : i32 {
      %same = arith.muli %t, %t : i32
      %row = arith.addi %k, %same overflow<nsw> : i32
      %next = arith.addi %row, %one overflow<nsw> : i32
      %value = simt.load %a[%next, %i : i32, i32] : !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 64, align 4> -> f32
      simt.store %value, %a[%next, %i : i32, i32] : f32, !simt.tensor<f32, [?, 8], contiguous, global, dims 32, offsets 64, align 4>
    }
  }
  simt.return
}
simt.kernel @products(%p : !simt.tensor<i32, [*], contiguous, global, dims 64, offsets 64, align 4>, %y : i8, %x : i32, %width : i32) {
  %three = arith.constant 3 : i8
  %four = arith.constant 4 : i32
  %below = arith.addi %y, %three overflow<nsw> : i8
  %wide = arith.extsi %below : i8 to i32
  %row = arith.muli %wide, %width overflow<nsw> : i32
  %place = arith.addi %row, %x overflow<nsw> : i32
  %twice = arith.muli %four, %place overflow<nsw> : i32
  %old = simt.atomic_rmw "add" "relaxed" "device" %x, %p[%twice : i32] : i32, !simt.tensor<i32, [*], contiguous, global, dims 64, offsets 64, align 4> -> i32
  simt.return
}
simt.kernel @stays(%a : !simt.tensor<f32, [?, ?], strided, shared, dims 32, offsets 32, align 4>, %y : i32, %x : i32) {
  %one = arith.constant 1 : i32
  %wraps = arith.addi %y, %one : i32
  %both = arith.addi %x, %y overflow<nsw> : i32
  %value = simt.load %a[%wraps, %both : i32, i32] : !simt.tensor<f32, [?, ?], strided, shared, dims 32, offsets 32, align 4> -> f32
  %next = arith.addi %x, %one overflow<nsw> : i32
  simt.store %value, %a[%y, %next : i32, i32] : f32, !simt.tensor<f32, [?, ?], strided, shared, dims 32, offsets 32, align 4>
  simt.printf "%d"(%next : i32)
  simt.return
}
simt.kernel @guarded(%a : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>, %b : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>, %y : i32, %x : i32, %n : i32, %p : i1, %q : i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %half = arith.constant 0.5 : f32
  scf.for %i = %zero to %n step %one : i32 {
    scf.if %p {
      %row = arith.addi %y, %x overflow<nsw> : i32
      %value = simt.load %a[%row, %i : i32, i32] : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4> -> f32
    }
    scf.if %q {
      %row = arith.addi %y, %x overflow<nsw> : i32
      %next = arith.addi %row, %one overflow<nsw> : i32
      simt.store %half, %a[%next, %i : i32, i32] : f32, !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>
      %down = arith.addi %y, %one overflow<nsw> : i32
      simt.store %half, %b[%down, %x : i32, i32] : f32, !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>
    }
  }
  simt.return
}
