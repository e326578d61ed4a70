// RUN: ptx
// RUN: sass
// A cluster's barrier is two instructions; a tensor in another block's memory keeps its address space.

// PTX:            .reqnctapercluster 4, 1, 1
// PTX:            mov.u32 [[RANK:%r[0-9]+]], %cluster_ctarank;
// PTX:            barrier.cluster.arrive.aligned;
// PTX-NEXT:       barrier.cluster.wait.aligned;
// PTX:            mapa.shared::cluster.u64 [[THERE:%rd[0-9]+]], %rd{{[0-9]+}}, [[RANK]];
// PTX:            ld.shared::cluster.b32

// SASS:           UCGABAR_ARV
// SASS:           UCGABAR_WAIT
// SASS:           LD.E

simt.kernel @cluster(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>) attributes {shared_memory_bytes = 128 : i64, cluster = array<i32: 4, 1, 1>} {
  %t = simt.shared at 0 : !simt.tensor<f32, [32], contiguous, shared, dims 32, offsets 32, align 16>
  %i = simt.thread_idx "x" : i32
  %r = nvgpu.cluster_rank : i32
  nvgpu.cluster_barrier
  %o = nvgpu.map_shared %t, %r : !simt.tensor<f32, [32], contiguous, shared, dims 32, offsets 32, align 16> to !simt.tensor<f32, [32], contiguous, cluster, dims 32, offsets 32, align 16>
  %v = simt.load %o[%i : i32] : !simt.tensor<f32, [32], contiguous, cluster, dims 32, offsets 32, align 16> -> f32
  simt.store %v, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  nvgpu.cluster_barrier
  simt.return
}
