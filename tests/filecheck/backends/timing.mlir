// RUN: ptx
// RUN: sass
// Two reads of a clock are two reads.

// PTX:            mov.u64 %rd{{[0-9]+}}, %globaltimer;
// PTX:            mov.u64 %rd{{[0-9]+}}, %globaltimer;
// PTX:            mov.u64 %rd{{[0-9]+}}, %clock64;
// PTX:            mov.u32 %r{{[0-9]+}}, %clock;
// PTX:            mov.u32 %r{{[0-9]+}}, %smid;

// SASS:           CS2R R{{[0-9]+}}, SR_GLOBALTIMERLO ;
// SASS:           CS2R R{{[0-9]+}}, SR_GLOBALTIMERLO ;
// SASS:           CS2R R{{[0-9]+}}, SR_CLOCKLO ;
// SASS:           S2{{U?}}R {{U?}}R{{[0-9]+}}, SR_VIRTUALSMID ;

simt.kernel @clocks(%a: !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>, %b: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %begin = simt.timer "globaltimer" : i64
  %end = simt.timer "globaltimer" : i64
  %time = arith.subi %end, %begin : i64
  simt.store %time, %a[%zero : i32] : i64, !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %cycles = simt.timer "clock64" : i64
  simt.store %cycles, %a[%n : i32] : i64, !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %low = simt.timer "clock32" : i32
  simt.store %low, %b[%n : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %sm = simt.sm_id : i32
  simt.store %sm, %b[%zero : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
