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

simt.kernel @divergent(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %i = simt.thread_idx "x" : i32
  %c = arith.cmpi slt, %i, %n : i32
  scf.if %c {
    simt.store %n, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
    simt.barrier
  }
  scf.for %k = %zero to %n step %one : i32 {
    simt.store %k, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
    simt.barrier
  }
  simt.return
}
