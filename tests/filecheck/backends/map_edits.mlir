// RUN: llvm-cpu
// RUN: ptx
// RUN: sass
// One thread of the warp copies the map and replaces its fields in shared memory; the whole warp publishes it. On the CPU the
// fields are those of weft_cpu_tensor_map.

// LLVM-CPU:       store <16 x i64>
// LLVM-CPU:       icmp eq i64 {{.*}}, 0
// LLVM-CPU:       getelementptr i8, ptr {{.*}}, i64 8
// LLVM-CPU:       getelementptr i8, ptr {{.*}}, i64 48

// PTX:            elect.sync
// PTX:            fence.proxy.tensormap::generic.release.gpu;
// PTX:            bar.warp.sync
// PTX:            fence.proxy.tensormap::generic.acquire.gpu [{{%rd[0-9]+}}], 128;
// PTX:            tensormap.replace.tile.global_address.shared::cta.b1024.b64
// PTX:            tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [{{%r[0-9]+}}], 0,
// PTX:            tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [{{%r[0-9]+}}], 1,
// PTX:            tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [{{%r[0-9]+}}], 0,
// PTX:            cp.async.bulk.commit_group;
// PTX:            cp.async.bulk.wait_group.read
// PTX:            bar.warp.sync
// PTX:            tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [{{%rd[0-9]+}}], [{{%r[0-9]+}}], 128;
// PTX:            fence.proxy.tensormap::generic.acquire.gpu [{{%rd[0-9]+}}], 128;
// PTX:            fence.proxy.tensormap::generic.acquire.gpu [{{%rd[0-9]+}}], 128;

// SASS:           ELECT
// SASS:           UTMACCTL.IV
// SASS:           UTMACMDFLUSH
// SASS:           UTMACCTL.IV

simt.kernel @k(%m: !nvgpu.tensor_map<bf16, [128, 64], swizzle 128> {weft.name = "m"}, %a: !simt.tensor<bf16, [?, 64], contiguous, global, dims 32, offsets 64, align 16> {weft.name = "a"}, %p: !simt.tensor<i64, [16], contiguous, global, dims 32, offsets 64, align 128> {weft.name = "p"}) {
  %s = simt.shared at 0 : !simt.tensor<i64, [16], contiguous, shared, dims 32, offsets 32, align 128>
  %e = nvgpu.elect_one : i1
  %c = nvgpu.copy_map %m to %p by %e : !nvgpu.tensor_map<bf16, [128, 64], swizzle 128>, !simt.tensor<i64, [16], contiguous, global, dims 32, offsets 64, align 128> -> !nvgpu.tensor_map<bf16, [128, 64], swizzle 128, memory>
  nvgpu.edit_map %c to %a in %s by %e : !nvgpu.tensor_map<bf16, [128, 64], swizzle 128, memory>, !simt.tensor<bf16, [?, 64], contiguous, global, dims 32, offsets 64, align 16>, !simt.tensor<i64, [16], contiguous, shared, dims 32, offsets 32, align 128>
  %f = nvgpu.map_at %p : !simt.tensor<i64, [16], contiguous, global, dims 32, offsets 64, align 128> -> !nvgpu.tensor_map<bf16, [128, 64], swizzle 128, memory>
  nvgpu.tma_prefetch %f : !nvgpu.tensor_map<bf16, [128, 64], swizzle 128, memory>
  simt.return
}
func.func @host(%a: !simt.tensor<bf16, [?, 64], contiguous, global, dims 32, offsets 64, align 16>, %p: !simt.tensor<i64, [16], contiguous, global, dims 32, offsets 64, align 128>, %one: i64) {
  %m = nvgpu.make_tensor_map %a "weft.tensor_map(a)" "a" "bf16" "128B" "zero" : !simt.tensor<bf16, [?, 64], contiguous, global, dims 32, offsets 64, align 16> -> !nvgpu.tensor_map<bf16, [128, 64], swizzle 128>
  simt.launch_ex @k grid(%one, %one, %one) block(%one, %one, %one) args(%m, %a, %p : !nvgpu.tensor_map<bf16, [128, 64], swizzle 128>, !simt.tensor<bf16, [?, 64], contiguous, global, dims 32, offsets 64, align 16>, !simt.tensor<i64, [16], contiguous, global, dims 32, offsets 64, align 128>)
  func.return
}
