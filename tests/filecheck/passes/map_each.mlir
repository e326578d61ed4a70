// RUN: map_each
// RUN: map_each_on_cpu
// RUN: ptx-after-passes
// On a GPU a group is 4 iterations, 16 bytes of f32 and 8 of bf16, aligned where it writes; a group that the array does not
// fill runs round by round, in a loop that is not unrolled. On a CPU each thread has its share.

// MAP_EACH:      simt.address %h[%0 : i64]
// MAP_EACH-NEXT: arith.divui
// MAP_EACH-NEXT: %[[SHIFT:.*]] = arith.andi
// MAP_EACH:      scf.while
// MAP_EACH:        %[[FIRST:.*]] = arith.subi %{{.*}}, %{{.*}} overflow<nsw> : i64
// MAP_EACH-NEXT:   %[[END:.*]] = arith.addi %[[FIRST]], %{{.*}} overflow<nsw> : i64
// MAP_EACH-NEXT:   arith.cmpi sge, %[[FIRST]], %0 : i64
// MAP_EACH-NEXT:   arith.cmpi sle, %[[END]], %{{.*}} : i64
// MAP_EACH:        scf.if
// MAP_EACH:          %x, %x_1, %x_2, %x_3 = simt.load_vector unaligned %a[%[[FIRST]] : i64]
// MAP_EACH-NEXT:     %y = arith.mulf %x, %factor : f32
// MAP_EACH:          %z_3 = arith.truncf %y_3 : f32 to bf16
// MAP_EACH-NEXT:     simt.store_vector %z, %z_1, %z_2, %z_3 :
// MAP_EACH:        } else {
// MAP_EACH-NEXT:     arith.maxsi %[[FIRST]], %0 : i64
// MAP_EACH-NEXT:     arith.minsi %[[END]], %{{.*}} : i64
// MAP_EACH-NEXT:     scf.for
// MAP_EACH-NEXT:       %x_4 = simt.load %a
// MAP_EACH:            simt.store %z_4
// MAP_EACH-NEXT:     } {unroll = 1 : i32}
// MAP_EACH:      func.func @host
// MAP_EACH:        %[[THREADS:.*]] = arith.constant 256 : i64
// MAP_EACH:        %[[PER_BLOCK:.*]] = arith.constant 1024 : i64
// MAP_EACH:        %[[BLOCKS:.*]] = arith.divui %{{.*}}, %[[PER_BLOCK]] : i64
// MAP_EACH-NEXT:   simt.launch_ex @scale grid(%[[BLOCKS]], %{{.*}}, %{{.*}}) block(%[[THREADS]], %{{.*}}, %{{.*}}) args

// MAP_EACH_ON_CPU:      %[[SHARE:.*]] = arith.divui
// MAP_EACH_ON_CPU-NEXT: arith.muli %{{.*}}, %[[SHARE]]
// MAP_EACH_ON_CPU:      scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} : i32 {
// MAP_EACH_ON_CPU-NEXT:   %x = simt.load %a[%[[I]] : i32]
// MAP_EACH_ON_CPU-NEXT:   %y = arith.mulf %x, %factor : f32
// MAP_EACH_ON_CPU-NEXT:   %z = arith.truncf %y : f32 to bf16
// MAP_EACH_ON_CPU-NEXT:   simt.store %z, %h[%[[I]] : i32]
// MAP_EACH_ON_CPU-NEXT: }
// MAP_EACH_ON_CPU:      %[[ONE:.*]] = arith.constant 1 : i64
// MAP_EACH_ON_CPU-NEXT: arith.constant 4096 : i64
// MAP_EACH_ON_CPU:      simt.launch_ex @scale grid(%{{.*}}, %[[ONE]], %[[ONE]]) block(%[[ONE]], %[[ONE]], %[[ONE]]) args

// PTX-AFTER-PASSES:      .reqntid 256, 1, 1
// PTX-AFTER-PASSES:      ld.global.b32
// PTX-AFTER-PASSES-NEXT: ld.global.b32
// PTX-AFTER-PASSES-NEXT: ld.global.b32
// PTX-AFTER-PASSES-NEXT: ld.global.b32
// PTX-AFTER-PASSES:      mul.rn.f32
// PTX-AFTER-PASSES:      cvt.rn.bf16x2.f32
// PTX-AFTER-PASSES:      st.global.v2.b32
// PTX-AFTER-PASSES:      .pragma "nounroll";
// PTX-AFTER-PASSES:      ld.global.b32
// PTX-AFTER-PASSES:      st.global.b16
// PTX-AFTER-PASSES:      ld.global.v4.b32

simt.kernel @scale(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %h: !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>, %factor: f32) {
  %n = simt.dim %a[0] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  simt.each %n : i32 {
  ^bb0(%i : i32):
    %x = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
    %y = arith.mulf %x, %factor : f32
    %z = arith.truncf %y : f32 to bf16
    simt.store %z, %h[%i : i32] : bf16, !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>
  }
  simt.return
}

func.func @host(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %h: !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>, %factor: f32, %iterations: i64) {
  simt.launch_ex @scale over %iterations grid() block() args(%a, %h, %factor : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, !simt.tensor<bf16, [?], contiguous, global, dims 32, offsets 64, align 2>, f32)
  func.return
}
