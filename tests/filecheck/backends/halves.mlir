// RUN: ptx
// RUN: sass
// f16 and bf16 side by side are computed two at a time, fma with one rounding.

// PTX:            fma.rn.f16x2
// PTX:            max.f16x2
// PTX-NOT:        f32
// PTX:            fma.rn.bf16x2

// SASS-DAG:       HFMA2{{(.MMA)?}} R
// SASS-DAG:       HMNMX2 R
// SASS-DAG:       HFMA2.BF16_V2 R
// SASS-NOT:       F2F

simt.kernel @halves(%a: !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16>, %b: !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 16>, %i: i32) {
  %x, %y = simt.load_vector %a[%i : i32] : !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16> -> f16, f16
  %p = math.fma %x, %x, %x : f16
  %p1 = arith.maxnumf %p, %x : f16
  %q = math.fma %y, %y, %y : f16
  %q1 = arith.maxnumf %q, %y : f16
  simt.store_vector %p1, %q1 : f16, f16 into %a[%i : i32] : !simt.tensor<f16, [?], contiguous, global, dims 32, offsets 64, align 16>
  %z, %w = simt.load_vector %b[%i : i32] : !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 16> -> bf16, bf16
  %r = math.fma %z, %z, %w : bf16
  %s = math.fma %w, %w, %z : bf16
  simt.store_vector %r, %s : bf16, bf16 into %b[%i : i32] : !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 16>
  simt.return
}
