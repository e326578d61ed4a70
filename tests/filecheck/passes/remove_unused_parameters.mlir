// RUN: remove_unused_parameters
// Arguments that nothing uses go from the kernel and its launches; of a tensor the parts stay that its uses need.

// REMOVE_UNUSED_PARAMETERS:      simt.kernel @copy(%a: {{.*}} {weft.name = "a", weft.parts = {pointer, dims = array<i32: 1>}}, %b: {{.*}} {weft.name = "b", weft.parts = {pointer, dims = array<i32: 0>, strides = array<i32: 0, 1>}}) {
// REMOVE_UNUSED_PARAMETERS:      func.func @host(%a: {{.*}}, %x: f32, %b: {{.*}}) {
// REMOVE_UNUSED_PARAMETERS:        simt.launch_ex @copy {{.*}} args(%a, %b : {{[^)]*}})

simt.kernel @copy(%a: !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4> {weft.name = "a"}, %unused: f32 {weft.name = "unused"}, %b: !simt.tensor<f32, [?, ?], strided, global, dims 32, offsets 64, align 4> {weft.name = "b"}) {
  %i = simt.thread_idx "x" : i32
  %n = simt.dim %b[0] : !simt.tensor<f32, [?, ?], strided, global, dims 32, offsets 64, align 4> -> i32
  %inside = arith.cmpi slt, %i, %n : i32
  scf.if %inside {
    %x = simt.load %a[%i, %i : i32, i32] : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4> -> f32
    simt.store %x, %b[%i, %i : i32, i32] : f32, !simt.tensor<f32, [?, ?], strided, global, dims 32, offsets 64, align 4>
  }
  simt.return
}
func.func @host(%a: !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>, %x: f32, %b: !simt.tensor<f32, [?, ?], strided, global, dims 32, offsets 64, align 4>) {
  %one = arith.constant 1 : i64
  simt.launch_ex @copy grid(%one, %one, %one) block(%one, %one, %one) shared %one args(%a, %x, %b : !simt.tensor<f32, [?, ?], contiguous, global, dims 32, offsets 64, align 4>, f32, !simt.tensor<f32, [?, ?], strided, global, dims 32, offsets 64, align 4>)
  func.return
}
