// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// Adjacent values are converted by pairs, from and to 8 bits; one that is left over by itself.

// LLVM-CUDA:      call <2 x half> @llvm.nvvm.e4m3x2.to.f16x2.rn(i16
// LLVM-CUDA-NOT:  call <2 x half>
// LLVM-CUDA:      call i16 @llvm.nvvm.ff.to.e5m2x2.rn(float %{{.*}}, float %{{.*}})
// LLVM-CUDA-NOT:  call i16
// LLVM-CUDA:      call i8 @weft.f32_to_f8e5m2(float %c

// PTX:            cvt.rn.f16x2.e4m3x2
// PTX-NOT:        cvt.rn.f16x2.e4m3x2
// PTX:            cvt.rn.satfinite.e5m2x2.f32
// PTX:            cvt.rn.satfinite.e5m2x2.f32
// PTX-NOT:        cvt.rn.satfinite.e5m2x2.f32

// SASS:           F2FP.F16.E4M3.UNPACK_B
// SASS:           HADD2.F32
// SASS:           HADD2.F32
// SASS:           F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C
// SASS:           F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C

simt.kernel @bytes(%f: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>, %p: !simt.tensor<f8E4M3FN, [?], contiguous, global, dims 32, offsets 64, align 16>, %q: !simt.tensor<f8E5M2, [?], contiguous, global, dims 32, offsets 64, align 16>, %i: i32) {
  %x, %y = simt.load_vector %p[%i : i32] : !simt.tensor<f8E4M3FN, [?], contiguous, global, dims 32, offsets 64, align 16> -> f8E4M3FN, f8E4M3FN
  %a = arith.extf %x : f8E4M3FN to f32
  %b = arith.extf %y : f8E4M3FN to f32
  %c = simt.load %f[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16> -> f32
  %d = arith.truncf %a : f32 to f8E5M2
  %e = arith.truncf %b : f32 to f8E5M2
  %g = arith.truncf %c : f32 to f8E5M2
  simt.store_vector %d, %e : f8E5M2, f8E5M2 into %q[%i : i32] : !simt.tensor<f8E5M2, [?], contiguous, global, dims 32, offsets 64, align 16>
  simt.store %g, %q[%i : i32] : f8E5M2, !simt.tensor<f8E5M2, [?], contiguous, global, dims 32, offsets 64, align 16>
  simt.return
}
