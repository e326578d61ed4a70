// RUN: llvm-host
// A launch asks for the kernel's own shared arrays by itself, and for what the user asks for after them; what is
// negative stays so, for the launch to refuse it.

// LLVM-HOST:      i32 @weft.host.host(ptr %frame, i64
// LLVM-HOST:      store i64 48, ptr
// LLVM-HOST:      call i32 %launch_cpu
// LLVM-HOST:      [[TOTAL:%v.[0-9]+]] = add i64 [[EXTRA:%.*]], 48
// LLVM-HOST:      [[NEGATIVE:%v.[0-9]+]] = icmp slt i64 [[EXTRA]], 0
// LLVM-HOST:      [[SUM:%shared.[0-9]+]] = select i1 [[NEGATIVE]], i64 [[EXTRA]], i64 [[TOTAL]]
// LLVM-HOST:      store i64 [[SUM]], ptr
// LLVM-HOST:      call i32 %launch_cpu

simt.kernel @tile() attributes {shared_memory_bytes = 48 : i64} {
  simt.return
}
func.func @host(%n: i64) {
  simt.launch_ex @tile grid(%n, %n, %n) block(%n, %n, %n)
  simt.launch_ex @tile grid(%n, %n, %n) block(%n, %n, %n) shared %n
  func.return
}
