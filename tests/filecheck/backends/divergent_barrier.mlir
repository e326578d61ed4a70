// RUN: ptx
// A barrier in a branch and one in a loop stay where they are, once each: they are neither merged with one in the
// other branch nor unrolled into two.

// PTX:            setp
// PTX:            bra [[SKIP:.*]];
// PTX:            bar.sync 0;
// PTX:            [[SKIP]]:
// PTX:            [[LOOP:.L.*]]:
// PTX-NOT:        [[LOOP]]
// PTX:            bar.sync 0;
// PTX:            bra [[LOOP]];
// PTX-NOT:        bar.sync

cuda.kernel @divergent(%a: !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %i = cuda.thread_idx "x" : i32
  %c = arith.cmpi slt, %i, %n : i32
  scf.if %c {
    cuda.store %n, %a[%i : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
    cuda.barrier
  }
  scf.for %k = %zero to %n step %one : i32 {
    cuda.store %k, %a[%i : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
    cuda.barrier
  }
  cuda.return
}
