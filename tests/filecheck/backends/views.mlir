// RUN: llvm-cuda
// RUN: llvm-cpu
// RUN: ptx
// RUN: sass
// A view is an address; its strides are constants where they can be. A vector is one access of 16 bytes.

// LLVM-CUDA:      %[[OFFSET:.*]] = mul nsw i64 %{{.*}}, 4
// LLVM-CUDA:      %[[ROW:.*]] = getelementptr inbounds float, ptr addrspace(1) %{{.*}}, i64 %[[OFFSET]]
// LLVM-CUDA:      load <4 x float>, ptr addrspace(1) %[[ROW]], align 16
// LLVM-CUDA:      mul nsw i64 4, -2
// LLVM-CUDA:      store <4 x float> %{{.*}}, ptr addrspace(1) %{{.*}}, align 16
// LLVM-CUDA:      load <16 x i8>, ptr addrspace(3) %buffer.{{[0-9]+}}, align 16
// LLVM-CUDA:      icmp ne i8

// LLVM-CPU:       load <4 x float>, ptr %{{.*}}, align 16
// LLVM-CPU:       store <4 x float> %{{.*}}, ptr %{{.*}}, align 16

// PTX:            ld.global.v4.b32
// PTX:            st.global.v4.b32

// SASS:           LDG.E.128
// SASS:           STG.E.128

simt.kernel @views(%a: !simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 16>, %out: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>, %i: i32, %n: i32) attributes {shared_memory_bytes = 16 : i64} {
  %zero = arith.constant 0 : i32
  %row = simt.view %a[%i, %zero : i32, i32] keeps [1] steps [1] : !simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 16> -> !simt.tensor<f32, [4], contiguous, global, dims 32, offsets 64, align 16>
  %x, %y, %z, %w = simt.load_vector %row[%zero : i32] : !simt.tensor<f32, [4], contiguous, global, dims 32, offsets 64, align 16> -> f32, f32, f32, f32
  %column = simt.view %a[%zero, %i : i32, i32] keeps [0] steps [-2] sizes(%n : i32) : !simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 16> -> !simt.tensor<f32, [?], strided, global, dims 32, offsets 64, align 4>
  %v = simt.load %column[%n : i32] : !simt.tensor<f32, [?], strided, global, dims 32, offsets 64, align 4> -> f32
  simt.store_vector %w, %z, %v, %x : f32, f32, f32, f32 into %out[%zero : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 16>
  %flags = simt.shared at 0 : !simt.tensor<i1, [16], contiguous, shared, dims 32, offsets 32, align 16>
  %b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7, %b8, %b9, %b10, %b11, %b12, %b13, %b14, %b15 = simt.load_vector %flags[%zero : i32] : !simt.tensor<i1, [16], contiguous, shared, dims 32, offsets 32, align 16> -> i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1
  %s0 = arith.xori %b0, %b5 : i1
  %s1 = arith.xori %s0, %b9 : i1
  %s = arith.xori %s1, %b15 : i1
  simt.store %s, %flags[%n : i32] : i1, !simt.tensor<i1, [16], contiguous, shared, dims 32, offsets 32, align 16>
  simt.return
}
