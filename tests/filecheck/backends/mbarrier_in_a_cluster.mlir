// RUN: ptx
// RUN: sass
// The cluster meets after its barriers are made; one thread of a warp arrives in each of the listed blocks. That fences
// memory only if blocks write each other's, which a wait then sees.

// PTX:            .entry cluster
// PTX:            fence.mbarrier_init.release.cluster;
// PTX:            barrier.cluster.arrive.aligned;
// PTX-NEXT:       barrier.cluster.wait.aligned;
// PTX:            mbarrier.try_wait.parity.shared.b64
// PTX:            elect.sync
// PTX-DAG:        mapa.shared::cluster.u64 [[FIRST:%rd[0-9]+]], %rd{{[0-9]+}}, 0;
// PTX-DAG:        mapa.shared::cluster.u64 [[SECOND:%rd[0-9]+]], %rd{{[0-9]+}}, %r{{[0-9]+}};
// PTX:            mbarrier.arrive.shared::cluster.b64 _, [%rd
// PTX:            mbarrier.arrive.shared::cluster.b64 _, [%rd
// PTX:            .entry writes
// PTX:            mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd
// PTX:            mbarrier.try_wait.parity.acquire.cluster.shared.b64

// SASS:           .text.cluster:
// SASS:           UCGABAR_ARV
// SASS:           UCGABAR_WAIT
// SASS-NOT:       MEMBAR
// SASS:           SYNCS.PHASECHK.TRANS64.TRYWAIT
// SASS-NOT:       MEMBAR
// SASS:           SYNCS.ARRIVE.TRANS64.RED

simt.kernel @cluster(%n: i32) attributes {shared_memory_bytes = 128 : i64, cluster = array<i32: 2, 1, 1>} {
  %w = simt.shared at 0 : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  %zero = arith.constant 0 : i32
  nvgpu.mbarrier_init %w : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8> arrivals [1]
  nvgpu.mbarrier_wait %w[%zero] parity %zero : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  nvgpu.mbarrier_release %w[%zero] ranks %zero, %n : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  simt.return
}
simt.kernel @writes(%value: f32) attributes {shared_memory_bytes = 256 : i64, cluster = array<i32: 2, 1, 1>} {
  %w = simt.shared at 0 : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  %t = simt.shared at 128 : !simt.tensor<f32, [32], contiguous, shared, dims 32, offsets 32, align 16>
  %zero = arith.constant 0 : i32
  nvgpu.mbarrier_init %w : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8> arrivals [1]
  %o = nvgpu.map_shared %t, %zero : !simt.tensor<f32, [32], contiguous, shared, dims 32, offsets 32, align 16> to !simt.tensor<f32, [32], contiguous, cluster, dims 32, offsets 32, align 16>
  simt.store %value, %o[%zero : i32] : f32, !simt.tensor<f32, [32], contiguous, cluster, dims 32, offsets 32, align 16>
  nvgpu.mbarrier_release %w[%zero] ranks %zero : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  nvgpu.mbarrier_wait %w[%zero] parity %zero : !simt.tensor<i64, [2], contiguous, shared, dims 32, offsets 32, align 8>
  simt.return
}
