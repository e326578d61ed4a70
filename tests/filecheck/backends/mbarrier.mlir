// RUN: llvm-cuda
// RUN: llvm-cpu
// RUN: ptx
// RUN: sass
// One thread initializes all barriers, then the block meets; arrivals, with and without bytes; waits are loops.

// LLVM-CUDA:      icmp eq i32 %thread_idx_x{{.*}}, 0
// LLVM-CUDA:      call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %{{.*}}, i32 1) convergent
// LLVM-CUDA:      call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %{{.*}}, i32 1) convergent
// LLVM-CUDA:      call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %{{.*}}, i32 8) convergent
// LLVM-CUDA-NEXT: call void @llvm.nvvm.fence.mbarrier_init.release.cluster() convergent
// LLVM-CUDA:      call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) convergent
// LLVM-CUDA:      again{{.*}}:
// LLVM-CUDA-NEXT: call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(

// A word of one arrival, and of eight; the word's highest bit is the phase's parity.
// LLVM-CPU:       store i64 1048577, ptr
// LLVM-CPU:       store i64 8388616, ptr
// LLVM-CPU:       lshr i64 %{{.*}}, 63

// PTX:            setp.ne.b32 %p{{[0-9]+}}, %r{{[0-9]+}}, 0;
// PTX:            mbarrier.init.shared.b64
// PTX-NEXT:       mbarrier.init.shared.b64
// PTX:            mbarrier.init.shared.b64
// PTX-NEXT:       fence.mbarrier_init.release.cluster;
// PTX:            bar.sync 0;
// PTX:            mbarrier.arrive.expect_tx.shared.b64 %rd{{[0-9]+}}, [%rd{{[0-9]+}}], %r
// PTX:            mbarrier.try_wait.parity.shared.b64 %p{{[0-9]+}}, [%rd{{[0-9]+}}], %r
// PTX:            bar.warp.sync -1;
// PTX-NEXT:       elect.sync
// PTX:            mbarrier.arrive.shared.b64
// PTX:            mbarrier.arrive.shared.b64
// PTX:            mbarrier.try_wait.parity.shared.b64

// SASS-DAG:       SYNCS.EXCH.64
// SASS:           BAR.SYNC
// SASS:           SYNCS.ARRIVE.TRANS64
// SASS:           SYNCS.PHASECHK.TRANS64.TRYWAIT
// SASS:           SYNCS.ARRIVE.TRANS64
// SASS:           SYNCS.PHASECHK.TRANS64.TRYWAIT

simt.kernel @ring(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %i: i32, %p: i32) attributes {block_size = array<i32: 256, 1, 1>, shared_memory_bytes = 32 : i64} {
  %full = simt.shared at 0 : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  %empty = simt.shared at 16 : !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8>
  %zero = arith.constant 0 : i32
  nvgpu.mbarrier_init %full, %empty : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>, !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8> arrivals [1, 8]
  nvgpu.mbarrier_arrive %full[%i] expect %p : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  nvgpu.mbarrier_wait %full[%i] parity %p : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  nvgpu.mbarrier_release %empty[%zero] : !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8>
  nvgpu.mbarrier_arrive %empty[%zero] : !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8>
  %ready = nvgpu.mbarrier_try_wait %empty[%zero] parity %p : !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8> -> i1
  %value = arith.extui %ready : i1 to i32
  simt.store %value, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
