// RUN: llvm-cpu
// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// RUN: llvm-host
// A tensor goes through control flow as its pointer, with the dims and strides that its type leaves open. Two tensors that a
// loop exchanges may overlap, so it reads and writes memory in every iteration.

// LLVM-CPU:      = phi ptr [ %argument
// LLVM-CPU-NEXT: = phi i32 [ %argument
// LLVM-CPU-NEXT: = phi ptr [ %argument
// LLVM-CPU-NEXT: = phi i32 [ poison

// LLVM-CUDA:      [[S:%src.[0-9]+]] = phi ptr addrspace(1) [ %a.pointer, {{.*}} ], [ [[D:%dst.[0-9]+]], {{.*}} ]
// LLVM-CUDA:      [[D]] = phi ptr addrspace(1) [ %b.pointer, {{.*}} ], [ [[S]], {{.*}} ]

// PTX:      ld.global
// PTX:      st.global

// SASS:     LDG
// SASS:     STG

// LLVM-HOST:      phi ptr [ %a0_0
// LLVM-HOST:      [[NUMBER:%x.[0-9]+]] = phi i32 [ 0, {{.*}} ], [ 1, {{.*}} ]
// LLVM-HOST:      store i32 [[NUMBER]], ptr %result_0

simt.kernel @swap(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> {weft.name = "a", weft.parts = {pointer, dims = array<i32: 0>}}, %b: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> {weft.name = "b", weft.parts = {pointer}}, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %s, %d = scf.for %k = %zero to %n step %one iter_args(%src = %a, %dst = %b) -> (!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) : i32 {
    %x = simt.load %src[%k : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
    simt.store %x, %dst[%zero : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
    scf.yield %dst, %src : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  }
  simt.return
}
func.func @host(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %b: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %c: i1) -> i32 {
  %x = scf.if %c -> (!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
    scf.yield %a : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  } else {
    scf.yield %b : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  }
  %number = simt.argument_number %x : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  func.return %number : i32
}
