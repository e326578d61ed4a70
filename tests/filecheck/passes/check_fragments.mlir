// RUN: check_fragments
// RUN: llvm-cuda
// RUN: sass
// An MMA may stay in flight over the iterations of a loop, if a wait after it completes what is read. The pass changes nothing.

// CHECK_FRAGMENTS-LABEL: simt.kernel @iterations(
// CHECK_FRAGMENTS:         nvgpu.wgmma_accumulator
// CHECK_FRAGMENTS:         nvgpu.wgmma_mma "bf16 bf16"
// CHECK_FRAGMENTS:         nvgpu.wgmma_wait 1 in
// CHECK_FRAGMENTS:         nvgpu.wgmma_wait 0 in
// CHECK_FRAGMENTS:         simt.fragment_values

// LLVM-CUDA:               phi float [ poison, %{{.*}} ], [ %{{.*}}, %{{.*}} ]
// LLVM-CUDA:               and i32 %{{.*}}, 16383
// LLVM-CUDA:               or disjoint i32 %{{.*}}, 65536
// LLVM-CUDA:               wgmma.fence.sync.aligned; setp.ne.b32 p, $10, 0; mov.b64 d0, {$9, 1073741888}; mov.b64 d1, {$8, 1073741888}; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, d1, d0, p, 1, 1, 0, 0; add.s32 l2, $9, 2;
// LLVM-CUDA-SAME:          wgmma.commit_group.sync.aligned; } wgmma.wait_group.sync.aligned 1;", "=f,=f,=f,=f,0,1,2,3,r,r,r,~{memory}"
// LLVM-CUDA-SAME:          convergent nounwind
// LLVM-CUDA:               asm sideeffect "wgmma.wait_group.sync.aligned 0;"

// SASS:                    WARPGROUP.ARRIVE
// SASS:                    HGMMA.64x8x16.F32.BF16
// SASS-COUNT-3:            HGMMA.64x8x16.F32.BF16
// SASS:                    WARPGROUP.DEPBAR.LE gsb0, 0x1
// SASS:                    WARPGROUP.DEPBAR.LE gsb0, 0x0

simt.kernel @iterations(%c: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 128, 1, 1>, shared_memory_bytes = 16384 : i64} {
  %a = simt.shared at 0 : !simt.tensor<bf16, [64, 64], swizzled 128 atoms 4096, shared, dims 32, offsets 32, align 1024>
  %b = simt.shared at 8192 : !simt.tensor<bf16, [64, 8], swizzled 128 atoms 512 transposed, shared, dims 32, offsets 32, align 1024>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %nothing = nvgpu.wgmma_accumulator : !simt.fragment<[64, 8], f32, wgmma c>
  %last = scf.for %i = %zero to %n step %one iter_args(%acc = %nothing) -> (!simt.fragment<[64, 8], f32, wgmma c>) : i32 {
    %later = arith.cmpi sgt, %i, %zero : i32
    %sums = nvgpu.wgmma_mma "bf16 bf16" %a, %b to %acc : !simt.fragment<[64, 8], f32, wgmma c> if %later : !simt.tensor<bf16, [64, 64], swizzled 128 atoms 4096, shared, dims 32, offsets 32, align 1024>, !simt.tensor<bf16, [64, 8], swizzled 128 atoms 512 transposed, shared, dims 32, offsets 32, align 1024> -> !simt.fragment<[64, 8], f32, wgmma c>
    %flying = nvgpu.wgmma_wait 1 in(%sums : !simt.fragment<[64, 8], f32, wgmma c>) out(!simt.fragment<[64, 8], f32, wgmma c>)
    scf.yield %flying : !simt.fragment<[64, 8], f32, wgmma c>
  }
  %done = nvgpu.wgmma_wait 0 in(%last : !simt.fragment<[64, 8], f32, wgmma c>) out(!simt.fragment<[64, 8], f32, wgmma c>)
  %x, %y, %z, %w = simt.fragment_values %done : !simt.fragment<[64, 8], f32, wgmma c> -> f32, f32, f32, f32
  %t = simt.thread_idx "x" : i32
  simt.store %x, %c[%t : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
