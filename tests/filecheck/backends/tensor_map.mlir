// RUN: llvm-host
// RUN: ptx
// RUN: sass
// A map is made by the runtime, from the tensor's address, sizes and strides, and copied into the parameters.

// LLVM-HOST:      @tensor_map{{.*}} = private unnamed_addr constant { ptr, ptr, i32, {{.*}} i32 9, i32 2, i32 2, i32 3, i32 2, i32 0, i32 128, i32 64, i32 1, i32 1, i32 1, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0 }, align 8
// LLVM-HOST:      i32 @weft.host.host(ptr %frame, ptr
// LLVM-HOST:      [[MAP:%map.[0-9]+]] = alloca [128 x i8], align 64
// LLVM-HOST:      alloca [192 x i8], align 64
// LLVM-HOST:      call i32 %make_tensor_map{{.*}}(ptr %frame, ptr @tensor_map{{.*}}, ptr %a0_0, ptr {{.*}}, ptr {{.*}}, ptr [[MAP]])
// LLVM-HOST:      ret i32 -1
// LLVM-HOST:      load <16 x i64>, ptr [[MAP]], align 64
// LLVM-HOST:      store <16 x i64> {{.*}}, align 64
// LLVM-HOST:      call i32 %launch_cpu

// PTX:            .param .align 64 .b8 k_param_1[128]
// PTX:            cp.async.bulk.prefetch.tensor.2d.L2.global.tile

// SASS:           UTMAPF

simt.kernel @k(%i: i32 {weft.name = "i"}, %m: !nvgpu.tensor_map<bf16, [128, 128], swizzle 128> {weft.name = "m"}) {
  nvgpu.tma_prefetch %m[%i, %i : i32, i32] : !nvgpu.tensor_map<bf16, [128, 128], swizzle 128>
  simt.return
}
func.func @host(%a: !simt.tensor<bf16, [?, 128], inner, global, dims 32, offsets 64, align 16>, %i: i32, %one: i64) {
  %m = nvgpu.make_tensor_map %a "weft.tensor_map(a)" "a" "bf16" "128B" "zero" : !simt.tensor<bf16, [?, 128], inner, global, dims 32, offsets 64, align 16> -> !nvgpu.tensor_map<bf16, [128, 128], swizzle 128>
  simt.launch_ex @k grid(%one, %one, %one) block(%one, %one, %one) args(%i, %m : i32, !nvgpu.tensor_map<bf16, [128, 128], swizzle 128>)
  func.return
}
