// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// Barriers have the constant number 0; fences are sequentially consistent, with the scope that was asked for.

// LLVM-CUDA:      call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent
// LLVM-CUDA:      call i32 @llvm.nvvm.barrier.cta.red.popc.aligned.all(i32 0, i1 %{{.*}}) convergent
// LLVM-CUDA:      call void @llvm.nvvm.bar.warp.sync(i32 %n.scalar) convergent
// LLVM-CUDA:      fence syncscope("block") seq_cst
// LLVM-CUDA:      fence syncscope("device") seq_cst
// LLVM-CUDA:      fence seq_cst

// PTX:            bar.sync 0;
// PTX:            bar.red.popc.u32 %{{.*}}, 0, %
// PTX:            bar.red.and.pred %{{.*}}, 0, %
// PTX:            bar.red.or.pred %{{.*}}, 0, %
// PTX:            bar.warp.sync %
// PTX:            fence.sc.cta;
// PTX:            fence.sc.gpu;
// PTX:            fence.sc.sys;

// SASS:           BAR.SYNC.DEFER_BLOCKING 0x0 ;
// SASS:           BAR.RED.POPC.DEFER_BLOCKING 0x0, {{!?}}P{{[0-9]}} ;
// SASS:           BAR.RED.AND.DEFER_BLOCKING 0x0, {{!?}}P{{[0-9]}} ;
// SASS:           BAR.RED.OR.DEFER_BLOCKING 0x0, {{!?}}P{{[0-9]}} ;
// SASS:           MEMBAR.SC.CTA ;
// SASS:           MEMBAR.SC.GPU ;
// SASS:           MEMBAR.SC.SYS ;

simt.kernel @barriers(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %i = simt.thread_idx "x" : i32
  %c = arith.cmpi slt, %i, %n : i32
  simt.barrier
  %count = simt.barrier_reduce "count" %c : i32
  %and = simt.barrier_reduce "and" %c : i1
  %or = simt.barrier_reduce "or" %c : i1
  simt.warp_barrier %n
  simt.fence "block"
  simt.store %count, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.fence "device"
  %both = arith.andi %and, %or : i1
  %x = arith.extui %both : i1 to i32
  simt.store %x, %a[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.fence "system"
  simt.store %count, %a[%n : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
