// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// A warpgroup's number is uniform, its barrier is one of eight; one thread of a warp is elected.

// LLVM-CUDA:      lshr i32 %thread_idx_x{{.*}}, 7
// LLVM-CUDA:      call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %{{.*}}, i32 0, i32 31) convergent

// PTX:            shfl.sync.idx.b32
// PTX:            bar.sync %r{{[0-9]+}}, 128;
// PTX:            elect.sync %r{{[0-9]+}}|%p{{[0-9]+}}, -1;

// The assembler sees that warps are uniform, and needs no shuffle in a block of one dimension.
// SASS:           ELECT P{{[0-9]+}}, URZ, PT ;
// SASS-NOT:       SHFL
// SASS:           BAR.SYNC.DEFER_BLOCKING R{{[0-9]+}}, 0x80 ;

simt.kernel @groups(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>) attributes {block_size = array<i32: 256, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %group = nvgpu.warpgroup_id : i32
  nvgpu.warpgroup_barrier %group
  %first = nvgpu.elect_one : i1
  scf.if %first {
    simt.store %group, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  }
  simt.return
}
