// RUN: llvm-host
// The sizes of a host function's array are checked by the call that takes it; a failure leaves the function, and
// the wrapper gives everything back.

// LLVM-HOST:      i32 @weft.host.host(ptr %frame, i32
// LLVM-HOST:      [[SIZES:%sizes.[0-9]+]] = alloca [2 x i64], align 8
// LLVM-HOST:      [[WIDE:%v.[0-9]+]] = sext i32 [[N:%.*]] to i64
// LLVM-HOST:      store i64 [[WIDE]], ptr
// LLVM-HOST:      store i64 4, ptr
// LLVM-HOST:      call i32 %take_scratch{{.*}}(ptr %frame, ptr {{.*}}, ptr {{.*}}, i64 2, ptr [[SIZES]], i64 2, ptr
// LLVM-HOST:      ret i32 -1
// LLVM-HOST:      %scratch{{.*}} = load ptr, ptr
// LLVM-HOST:      call i32 %launch_cpu

simt.kernel @fill(%a: !simt.tensor<f16, [?, 4], contiguous, global, dims 32, offsets 64, align 256> {weft.name = "a", weft.parts = {pointer}}) {
  simt.return
}
func.func @host(%n: i32, %one: i64) {
  %a = simt.scratch "weft.scratch((n, 4), weft.f16)" sizes(%n : i32) : !simt.tensor<f16, [?, 4], contiguous, global, dims 32, offsets 64, align 256>
  simt.launch_ex @fill grid(%one, %one, %one) block(%one, %one, %one) args(%a : !simt.tensor<f16, [?, 4], contiguous, global, dims 32, offsets 64, align 256>)
  func.return
}
