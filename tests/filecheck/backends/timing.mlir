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

cuda.kernel @clocks(%a: !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>, %b: !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %begin = cuda.timer "globaltimer" : i64
  %end = cuda.timer "globaltimer" : i64
  %time = arith.subi %end, %begin : i64
  cuda.store %time, %a[%zero : i32] : i64, !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %cycles = cuda.timer "clock64" : i64
  cuda.store %cycles, %a[%n : i32] : i64, !cuda.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 8>
  %low = cuda.timer "clock32" : i32
  cuda.store %low, %b[%n : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %sm = cuda.sm_id : i32
  cuda.store %sm, %b[%zero : i32] : i32, !cuda.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  cuda.return
}
