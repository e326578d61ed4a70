// RUN: llvm-cuda
// RUN: ptx
// Constraints follow from types; a tensor is its address, 32 bits in shared memory. The call is convergent.

// LLVM-CUDA:      %[[A:.*]] = ptrtoint ptr addrspace(1) %{{.*}} to i64
// LLVM-CUDA:      %[[S:.*]] = ptrtoint ptr addrspace(3) %buffer.{{[0-9]+}} to i32
// LLVM-CUDA:      call { i32, double } asm sideeffect "first $0, $1, $2, $3, $4, $5;", "=r,=d,l,r,h,f,~{memory}"(i64 %[[A]], i32 %[[S]], i16 %{{.*}}, float %{{.*}}) convergent nounwind
// LLVM-CUDA:      extractvalue { i32, double } %{{.*}}, 1
// LLVM-CUDA:      call void asm sideeffect "membar.gl; // \22", "~{memory}"() convergent nounwind

// PTX:            // begin inline asm
// PTX:            membar.gl; // "
// PTX:            // end inline asm

simt.kernel @inline(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %x: f32, %h: f16) attributes {shared_memory_bytes = 16 : i64} {
  %s = simt.shared at 0 : !simt.tensor<f32, [4], contiguous, shared, dims 32, offsets 32, align 16>
  %0, %1 = nvgpu.inline_ptx "first $0, $1, $2, $3, $4, $5;" in(%a, %s, %h, %x : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, !simt.tensor<f32, [4], contiguous, shared, dims 32, offsets 32, align 16>, f16, f32) out(i32, f64)
  nvgpu.inline_ptx "membar.gl; // \""
  simt.return
}
