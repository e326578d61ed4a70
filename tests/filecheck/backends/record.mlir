// RUN: ptx
// RUN: sass
// A record is a read of the clock and a store under a predicate, without a branch.

// PTX:            mov.u32 %time, %clock; @%p{{[0-9]+}} st.global.v2.b32 [%rd{{[0-9]+}}], {%r{{[0-9]+}}, %time};
// PTX:            mov.u32 %time, %globaltimer_lo;

// SASS:           CS2R.32 R{{[0-9]+}}, SR_CLOCKLO ;
// SASS-NOT:       BRA
// SASS:           STG.E.64
// SASS:           CS2R.32 R{{[0-9]+}}, SR_GLOBALTIMERLO ;

simt.kernel @records(%a: !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>, %n: i32) {
  %zero = arith.constant 0 : i32
  %leads = arith.cmpi sgt, %n, %zero : i32
  simt.record "clock32" %leads, %n, %a[%n : i32] : !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  simt.record "globaltimer" %leads, %zero, %a[%zero : i32] : !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  simt.return
}
