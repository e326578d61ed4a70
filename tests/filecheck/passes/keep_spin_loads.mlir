// RUN: keep_spin_loads
// A loop that only another thread can end reads in each iteration; one that counts, or that stores what it reads, need not.

// KEEP_SPIN_LOADS-LABEL: simt.kernel @waits(
// KEEP_SPIN_LOADS:         simt.load volatile %flags
// KEEP_SPIN_LOADS-LABEL: simt.kernel @counts(
// KEEP_SPIN_LOADS:         simt.load %flags
// KEEP_SPIN_LOADS-LABEL: simt.kernel @stores(
// KEEP_SPIN_LOADS:         simt.load %flags

simt.kernel @waits(%flags: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %zero = arith.constant 0 : i32
  scf.while () : () -> () {
    %flag = simt.load %flags[%zero : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
    %unset = arith.cmpi eq, %flag, %zero : i32
    scf.condition(%unset)
  } do {
    scf.yield
  }
  simt.return
}
simt.kernel @counts(%flags: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %iterations = scf.while (%round = %zero) : (i32) -> (i32) {
    %limit = simt.load %flags[%zero : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
    %below = arith.cmpi slt, %round, %limit : i32
    scf.condition(%below) %round : i32
  } do {
  ^bb0(%before: i32):
    %next = arith.addi %before, %one : i32
    scf.yield %next : i32
  }
  simt.return
}
simt.kernel @stores(%flags: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.while () : () -> () {
    %left = simt.load %flags[%zero : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
    %more = arith.cmpi ne, %left, %zero : i32
    %less = arith.subi %left, %one : i32
    simt.store %less, %flags[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
    scf.condition(%more)
  } do {
    scf.yield
  }
  simt.return
}
