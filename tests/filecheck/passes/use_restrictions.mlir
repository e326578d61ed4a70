// RUN: use_restrictions
// The first argument is restricted and only read: its loads are constant, and no store reaches it. The launch is preceded by
// a comparison of both arguments, since the kernel writes the second.

// USE_RESTRICTIONS:      simt.load %a[%i : i32] {
// USE_RESTRICTIONS-SAME: weft.restrict = array<i32: 0>
// USE_RESTRICTIONS-SAME: weft.constant
// USE_RESTRICTIONS:      simt.store %x, %v[%i : i32] {weft.distinct = array<i32: 0>}
// USE_RESTRICTIONS:      simt.check_distinct %from, %to "copy" "a" "b"
// USE_RESTRICTIONS-NEXT: simt.launch_ex @copy

simt.kernel @copy(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> {weft.name = "a", weft.restrict}, %b: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> {weft.name = "b"}) {
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
