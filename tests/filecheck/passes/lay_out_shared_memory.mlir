// RUN: lay_out_shared_memory
// Arrays lie in the order of the program, each aligned as its type says; a kernel's total is a multiple of 16 bytes.

// LAY_OUT_SHARED_MEMORY:      simt.kernel @tiles() attributes {shared_memory_bytes = 144 : i64} {
// LAY_OUT_SHARED_MEMORY-NEXT:   %flag = simt.shared at 0 :
// LAY_OUT_SHARED_MEMORY:        %tile = simt.shared at 16 :
// LAY_OUT_SHARED_MEMORY:        %last = simt.shared at 136 :
// LAY_OUT_SHARED_MEMORY:      simt.kernel @none() {

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
