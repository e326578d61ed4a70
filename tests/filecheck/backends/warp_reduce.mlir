// RUN: ptx
// RUN: ptx-sm75
// RUN: sass
// Integers have an instruction from sm_80 on. Others take a butterfly of five shuffles; where lanes may be missing,
// those that are there are asked first, and a tree over them stands beside the butterfly.

// PTX-LABEL:      .entry whole(
// PTX:            redux.sync.add.s32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r
// PTX-NOT:        shfl
// PTX-LABEL:      .entry wide(
// PTX:            redux.sync.or.b32
// PTX:            redux.sync.or.b32
// PTX-NOT:        shfl
// PTX-LABEL:      .entry floats(
// PTX-NOT:        vote
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 1, 31, -1;
// PTX:            add.rn.f32
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 2, 31, -1;
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 4, 31, -1;
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 8, 31, -1;
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 16, 31, -1;
// PTX-NOT:        shfl
// PTX-LABEL:      .entry partial(
// PTX:            vote.sync.ballot.b32 [[HERE:%r[0-9]+]], %p{{[0-9]+}}, -1;
// PTX:            setp.{{ne|eq}}.b32 %p{{[0-9]+}}, [[HERE]], -1;
// PTX:            shfl.sync.idx.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, 31, [[HERE]];
// All lanes of a warp run the iterations of a block's loop, or none does; not so those of a thread's.
// PTX-LABEL:      .entry together(
// PTX-NOT:        vote
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 16, 31, -1;
// PTX-NOT:        shfl
// PTX-LABEL:      .entry apart(
// PTX:            vote.sync.ballot.b32

// PTX-SM75-LABEL: .entry whole(
// PTX-SM75:       shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 1, 31, -1;
// PTX-SM75:       add.s32
// PTX-SM75:       shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 16, 31, -1;
// PTX-SM75-NOT:   redux

// SASS:           .text.partial:
// SASS:           VOTE.ANY R{{[0-9]+}}, PT, PT ;
// SASS:           SHFL.IDX
// SASS:           .text.floats:
// SASS-NOT:       VOTE
// SASS:           SHFL.BFLY PT, R{{[0-9]+}}, R{{[0-9]+}}, 0x10, 0x1f ;
// SASS:           .text.wide:
// SASS-NOT:       SHFL
// SASS:           REDUX.OR
// SASS:           REDUX.OR
// SASS:           .text.whole:
// SASS:           REDUX.SUM.S32 UR{{[0-9]+}}, R{{[0-9]+}} ;

simt.kernel @whole(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 64, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %v = simt.load %a[%i : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %r = simt.warp_reduce "add" %v mask %n : i32
  simt.store %r, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}

simt.kernel @wide(%a: !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 64, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %full = arith.constant -1 : i32
  %v = simt.load %a[%i : i32] : !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 4> -> i64
  %r = simt.warp_reduce "or" %v mask %full : i64
  simt.store %r, %a[%i : i32] : i64, !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}

simt.kernel @floats(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 64, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %full = arith.constant -1 : i32
  %v = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %r = simt.warp_reduce "add" %v mask %full : f32
  simt.store %r, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}

simt.kernel @partial(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 48, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %full = arith.constant -1 : i32
  %v = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %r = simt.warp_reduce "max" %v mask %full : f32
  simt.store %r, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}

simt.kernel @together(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 64, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %first = simt.block_idx "x" : i32
  %full = arith.constant -1 : i32
  %zero = arith.constant 0 : i32
  %step = simt.grid_dim "x" : i32
  scf.for %k = %first to %n step %step : i32 {
    %is_even = arith.cmpi sge, %k, %zero : i32
    scf.if %is_even {
      %v = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
      %r = simt.warp_reduce "add" %v mask %full : f32
      simt.store %r, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
    }
  }
  simt.return
}

simt.kernel @apart(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 64, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %first = simt.thread_idx "x" : i32
  %full = arith.constant -1 : i32
  %zero = arith.constant 0 : i32
  %step = simt.grid_dim "x" : i32
  scf.for %k = %first to %n step %step : i32 {
    %is_even = arith.cmpi sge, %k, %zero : i32
    scf.if %is_even {
      %v = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
      %r = simt.warp_reduce "add" %v mask %full : f32
      simt.store %r, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
    }
  }
  simt.return
}
