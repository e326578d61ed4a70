// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// All shared arrays are parts of one dynamic buffer, whose address is in a register; what a launch asks for begins after
// them.

// LLVM-CUDA:      %[[BUFFER:.*]] = call align 16 ptr addrspace(3) asm "mov.b64 $0, $1;", "=l,l"(ptr addrspace(3) @weft$shared)
// LLVM-CUDA:      %[[LAUNCHED:.*]] = getelementptr i8, ptr addrspace(3) %[[BUFFER]], i64 48
// LLVM-CUDA:      getelementptr i8, ptr addrspace(3) %[[LAUNCHED]], i64 %
// LLVM-CUDA:      call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent
// LLVM-CUDA:      mul nsw i64 %{{.*}}, 4
// LLVM-CUDA:      @weft$shared = external addrspace(3) global [0 x i8], align 16

// PTX:            .extern .shared .align 16 .b8 weft$shared[];
// PTX:            st.shared.b32
// PTX:            st.shared.b8 [%[[BUFFER:[a-z0-9]+]]+32], 1;
// PTX:            bar.sync 0;
// PTX:            ld.shared.b32 %{{.*}}, [%[[BUFFER]]];

// SASS:           STS
// SASS:           STS.U8
// SASS:           BAR.SYNC.DEFER_BLOCKING 0x0
// SASS:           LDS

simt.kernel @shared(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32, %w: i64) attributes {shared_memory_bytes = 48 : i64} {
  %tile = simt.shared at 0 : !simt.tensor<f32, [2, 4], contiguous, shared, dims 32, offsets 32, align 16>
  %flag = simt.shared at 32 : !simt.tensor<i1, [1], contiguous, shared, dims 32, offsets 32, align 1>
  %view = simt.dynamic_shared %w dims(%n : i32) : !simt.tensor<f32, [?, 4], contiguous, shared, dims 32, offsets 64, align 4>
  %zero = arith.constant 0 : i32
  %true = arith.constant true
  %x = simt.load %a[%n : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  simt.store %x, %tile[%n, %zero : i32, i32] : f32, !simt.tensor<f32, [2, 4], contiguous, shared, dims 32, offsets 32, align 16>
  simt.store %true, %flag[%zero : i32] : i1, !simt.tensor<i1, [1], contiguous, shared, dims 32, offsets 32, align 1>
  simt.barrier
  %y = simt.load %tile[%zero, %zero : i32, i32] : !simt.tensor<f32, [2, 4], contiguous, shared, dims 32, offsets 32, align 16> -> f32
  %z = simt.load %view[%n, %n : i32, i32] : !simt.tensor<f32, [?, 4], contiguous, shared, dims 32, offsets 64, align 4> -> f32
  %s = arith.addf %y, %z : f32
  simt.store %s, %a[%n : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
