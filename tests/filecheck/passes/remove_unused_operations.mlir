// RUN: remove_unused_operations
// What nothing uses goes from the top of each function, and what only it used with it; what writes stays.

// REMOVE_UNUSED_OPERATIONS:      simt.kernel @scale(%a:
// REMOVE_UNUSED_OPERATIONS-NEXT:   %i = simt.thread_idx "x" : i32
// REMOVE_UNUSED_OPERATIONS-NEXT:   %two = arith.constant 2.0
// REMOVE_UNUSED_OPERATIONS-NEXT:   simt.store %two, %a[%i : i32]
// REMOVE_UNUSED_OPERATIONS-NEXT:   simt.return
// REMOVE_UNUSED_OPERATIONS:      func.func @host() {
// REMOVE_UNUSED_OPERATIONS-NEXT:   func.return

simt.kernel @scale(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %i = simt.thread_idx "x" : i32
  %n = simt.dim %a[0] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %last = arith.addi %i, %n : i32
  %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
  %digits = simt.alloca : !simt.tensor<i32, [10], contiguous, local, dims 32, offsets 32, align 4>
  %two = arith.constant 2.0 : f32
  simt.store %two, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
func.func @host() {
  %one = arith.constant 1 : i64
  func.return
}
