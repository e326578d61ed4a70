// RUN: find_written_arguments
// The host function says which of its tensors kernels write: the second, through a view, and not the first.

// FIND_WRITTEN_ARGUMENTS:      func.func @host(%from: {{.*}}) attributes {weft.written_arguments = array<i32: 1>} {

simt.kernel @copy(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %b: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %i = simt.thread_idx "x" : i32
  %x = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %v = simt.view %b[%i : i32] keeps [0] steps [-2] sizes(%i : i32) : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> !simt.tensor<f32, [?], strided, global, dims 32, offsets 64, align 4>
  simt.store %x, %v[%i : i32] : f32, !simt.tensor<f32, [?], strided, global, dims 32, offsets 64, align 4>
  simt.return
}
func.func @host(%from: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %to: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %one = arith.constant 1 : i64
  simt.launch_ex @copy grid(%one, %one, %one) block(%one, %one, %one) args(%from, %to : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>)
  func.return
}
