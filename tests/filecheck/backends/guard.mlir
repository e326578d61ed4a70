// RUN: llvm-cpu
// RUN: llvm-cuda
// RUN: ptx
// A guard that is affine in thread_idx.x: on the CPU it becomes the bound of the loop over threads and is not
// asked inside it; on CUDA it is a branch.

// LLVM-CPU:       define i32 @weft.kernel.add_one(ptr %parameters, ptr %launch, i64 %first, i64 %last, ptr %scratch)
// LLVM-CPU:       call i64 @llvm.smin.i64
// LLVM-CPU:       thread.[[LABEL:[0-9]+]]:
// LLVM-CPU-NOT:   icmp
// LLVM-CPU:       fadd float
// LLVM-CPU-NEXT:  sext
// LLVM-CPU-NEXT:  getelementptr inbounds float
// LLVM-CPU-NEXT:  store float
// LLVM-CPU-NEXT:  add nuw nsw i32
// LLVM-CPU-NEXT:  icmp slt i32
// LLVM-CPU-NEXT:  br i1 {{.*}}, label %thread.[[LABEL]]

// LLVM-CUDA:      define ptx_kernel void @add_one(ptr addrspace(1) {{.*}}, i32 {{.*}}, ptr addrspace(1)
// LLVM-CUDA:      icmp slt i32
// LLVM-CUDA-NEXT: br i1
// LLVM-CUDA:      load float, ptr addrspace(1)
// LLVM-CUDA:      store float

// PTX:            .visible .entry add_one(
// PTX-DAG:        %ctaid.x
// PTX-DAG:        %tid.x
// PTX:            setp.ge.s32
// PTX-NEXT:       @%p1 bra
// PTX:            ld.global
// PTX-NEXT:       add.rn.f32 {{.*}}, 0f3F800000
// PTX:            st.global
// PTX:            ret;
simt.kernel @add_one(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %b: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %block = simt.block_idx "x" : i32
  %size = simt.block_dim "x" : i32
  %thread = simt.thread_idx "x" : i32
  %first = arith.muli %block, %size : i32
  %i = arith.addi %first, %thread : i32
  %n = simt.dim %a[0] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %inside = arith.cmpi slt, %i, %n : i32
  scf.if %inside {
    %value = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
    %one = arith.constant 1.000000e+00 : f32
    %sum = arith.addf %value, %one : f32
    simt.store %sum, %b[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  }
  simt.return
}
