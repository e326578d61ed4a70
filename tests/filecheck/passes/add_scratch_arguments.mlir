// RUN: add_scratch_arguments
// Each array is an argument with one row per block, and a view of the row that the block's number says.

// ADD_SCRATCH_ARGUMENTS:      simt.kernel @two(%n: i32, %scratch: !simt.tensor<f32, [?, 2, 64], contiguous, global, dims 64, {{.*}}> {weft.name = "scratch_0"}, %scratch_1: !simt.tensor<i1, [?, 3], {{.*}}> {weft.name = "scratch_1"}) attributes {scratch_arguments = array<i32: 1, 2>} {
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[Z:%.+]] = simt.block_idx "z" : i32
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[Z64:%.+]] = arith.extsi [[Z]] : i32 to i64
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[NY:%.+]] = simt.grid_dim "y" : i32
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[NY64:%.+]] = arith.extsi [[NY]] : i32 to i64
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[ROWS:%.+]] = arith.muli [[Z64]], [[NY64]] : i64
// ADD_SCRATCH_ARGUMENTS:        [[Y64:%.+]] = arith.extsi
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[ROW:%.+]] = arith.addi [[ROWS]], [[Y64]] : i64
// ADD_SCRATCH_ARGUMENTS:        [[BLOCK:%.+]] = arith.addi {{.+}} : i64
// ADD_SCRATCH_ARGUMENTS-NEXT:   [[ZERO:%.+]] = arith.constant 0 : i32
// ADD_SCRATCH_ARGUMENTS-NEXT:   %rows = simt.view %scratch{{.*}}[[BLOCK]], [[ZERO]], [[ZERO]] : i64, i32, i32] keeps [1, 2] steps [1, 1]
// ADD_SCRATCH_ARGUMENTS:        %marks = simt.view %scratch_1
// ADD_SCRATCH_ARGUMENTS:      simt.kernel @none() {
// ADD_SCRATCH_ARGUMENTS:        simt.launch_ex @two {{.*}} args(%n : i32)

simt.kernel @two(%n: i32) {
  %rows = simt.global_scratch : !simt.tensor<f32, [2, 64], contiguous, global, dims 64, offsets 64, align 16>
  %again = arith.constant true
  scf.if %again {
    %marks = simt.global_scratch : !simt.tensor<i1, [3], contiguous, global, dims 64, offsets 64, align 1>
    simt.store %again, %marks[%n : i32] : i1, !simt.tensor<i1, [3], contiguous, global, dims 64, offsets 64, align 1>
  }
  %x = simt.load %rows[%n, %n : i32, i32] : !simt.tensor<f32, [2, 64], contiguous, global, dims 64, offsets 64, align 16> -> f32
  simt.printf "%f"(%x : f32)
  simt.return
}
simt.kernel @none() {
  simt.return
}
func.func @host(%n: i32) {
  %one = arith.constant 1 : i64
  simt.launch_ex @two grid(%one, %one, %one) block(%one, %one, %one) args(%n : i32)
  func.return
}
