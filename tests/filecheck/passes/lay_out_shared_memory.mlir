// RUN: lay_out_shared_memory
// Arrays lie in the order of the program, each aligned as its type says; a kernel's total is a multiple of 16 bytes.
// Arrays with elements per thread take what the kernel's block needs, or the largest one it may have.

// LAY_OUT_SHARED_MEMORY:      simt.kernel @tiles() attributes {shared_memory_bytes = 144 : i64} {
// LAY_OUT_SHARED_MEMORY-NEXT:   %flag = simt.shared at 0 :
// LAY_OUT_SHARED_MEMORY:        %tile = simt.shared at 16 :
// LAY_OUT_SHARED_MEMORY:        %last = simt.shared at 136 :
// LAY_OUT_SHARED_MEMORY:      simt.kernel @none() {
// LAY_OUT_SHARED_MEMORY:      simt.kernel @sized() attributes {{.*}}shared_memory_bytes = 784 : i64
// LAY_OUT_SHARED_MEMORY:        simt.shared at 768 :
// LAY_OUT_SHARED_MEMORY:      simt.kernel @bounded() attributes {{.*}}shared_memory_bytes = 1536 : i64
// LAY_OUT_SHARED_MEMORY:      simt.kernel @unbounded() attributes {{.*}}shared_memory_bytes = 12288 : i64

simt.kernel @tiles() {
  %flag = simt.shared : !simt.tensor<i1, [1], contiguous, shared, dims 32, offsets 32, align 1>
  %again = arith.constant true
  scf.if %again {
    %tile = simt.shared : !simt.tensor<f32, [2, 15], contiguous, shared, dims 32, offsets 32, align 16>
  }
  %last = simt.shared : !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8>
  simt.return
}
simt.kernel @none() {
  simt.return
}
simt.kernel @sized() attributes {block_size = array<i32: 32, 2, 1>} {
  %items = simt.shared per_thread 3 : !simt.tensor<f32, [3072], contiguous, shared, dims 32, offsets 32, align 16>
  %last = simt.shared : !simt.tensor<i64, [1], contiguous, shared, dims 32, offsets 32, align 8>
  simt.return
}
simt.kernel @bounded() attributes {max_threads = 128 : i32} {
  %items = simt.shared per_thread 3 : !simt.tensor<f32, [3072], contiguous, shared, dims 32, offsets 32, align 16>
  simt.return
}
simt.kernel @unbounded() {
  %items = simt.shared per_thread 3 : !simt.tensor<f32, [3072], contiguous, shared, dims 32, offsets 32, align 16>
  simt.return
}
