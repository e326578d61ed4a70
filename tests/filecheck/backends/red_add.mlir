// RUN: llvm-cuda
// RUN: llvm-cpu
// RUN: ptx
// RUN: sass
// One sum of up to 16 bytes in global memory, each element by itself; in shared memory, and on a CPU, one after the other.

// LLVM-CUDA:      asm sideeffect "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};"
// LLVM-CUDA:      asm sideeffect "red.relaxed.gpu.global.add.noftz.v4.bf16x2 [$0], {$1, $2, $3, $4};"
// LLVM-CUDA:      atomicrmw fadd ptr addrspace(3) %buffer.{{[0-9]+}}, float
// LLVM-CUDA:      atomicrmw fadd ptr addrspace(3) %{{v.*}}, float

// LLVM-CPU:       atomicrmw fadd ptr %{{.*}}, float %{{.*}} monotonic, align 4
// LLVM-CPU:       getelementptr inbounds float, ptr %{{.*}}, i64 1
// LLVM-CPU:       atomicrmw fadd

// PTX:            red.relaxed.gpu.global.add.v4.f32
// PTX:            red.relaxed.gpu.global.add.noftz.v4.bf16x2

// SASS:           REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU
// SASS:           REDG.E.ADD.BF16x8.RN.STRONG.GPU

simt.kernel @sums(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>, %b: !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 16>, %x: f32, %y: bf16, %i: i32) attributes {shared_memory_bytes = 16 : i64} {
  %zero = arith.constant 0 : i32
  simt.red_add %x, %x, %x, %x : f32, f32, f32, f32 into %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>
  simt.red_add %y, %y, %y, %y, %y, %y, %y, %y : bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16 into %b[%i : i32] : !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 16>
  %tile = simt.shared at 0 : !simt.tensor<f32, [4], contiguous, shared, dims 32, offsets 32, align 16>
  simt.red_add %x, %x : f32, f32 into %tile[%zero : i32] : !simt.tensor<f32, [4], contiguous, shared, dims 32, offsets 32, align 16>
  simt.return
}
