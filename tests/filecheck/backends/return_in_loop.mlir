// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// A thread that has returned leaves at once. Were it to wait where the lanes of its warp meet after the loop, the
// others would wait for it at the barrier in the loop, forever.

// LLVM-CUDA:      {{^}}then.[[THEN:[0-9]+]]:
// LLVM-CUDA-NEXT: br label %exit
// LLVM-CUDA:      call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
// LLVM-CUDA:      br label %exit
// LLVM-CUDA:      {{^}}exit:
// LLVM-CUDA-NEXT: ret void

// PTX:            [[LOOP:.L.*]]:
// PTX:            bra [[EXIT:.L.*]];
// PTX:            bar.sync 0;
// PTX:            bra [[LOOP]];
// PTX:            st.global.b32
// PTX:            [[EXIT]]:
// PTX-NEXT:       ret;

// SASS-NOT:       BSSY
// SASS:           @{{!?}}P{{[0-9]}} EXIT ;
// SASS-NOT:       BSYNC
// SASS:           BAR.SYNC.DEFER_BLOCKING 0x0 ;

simt.kernel @returns(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %i = simt.thread_idx "x" : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %false = arith.constant false
  %true = arith.constant true
  %last, %live = scf.while (%k = %zero, %going = %true) : (i32, i1) -> (i32, i1) {
    %more = arith.cmpi slt, %k, %n : i32
    %both = arith.andi %going, %more : i1
    scf.condition(%both) %k, %going : i32, i1
  } do {
  ^bb0(%k: i32, %going: i1):
    %v = simt.load %a[%i : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
    %c = arith.cmpi eq, %v, %k : i32
    %on = scf.if %c -> (i1) {
      simt.exit
      scf.yield %false : i1
    } else {
      simt.barrier
      scf.yield %true : i1
    }
    %next = arith.addi %k, %one : i32
    scf.yield %next, %on : i32, i1
  }
  scf.if %live {
    simt.store %n, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  }
  simt.return
}
