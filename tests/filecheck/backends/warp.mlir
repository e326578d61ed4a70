// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// Shuffles of every width of value, votes, matches, a thread's lane and warp.

// LLVM-CUDA:      call i32 @llvm.nvvm.read.ptx.sreg.laneid()
// LLVM-CUDA:      lshr i32 %thread_idx_x{{.*}}, 5
// LLVM-CUDA:      call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %{{.*}}, i32 1, i32 0) convergent

// PTX:            mov.u32 %r{{[0-9]+}}, %laneid;
// PTX:            shfl.sync.up.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 1, 0, -1;
// PTX:            shfl.sync.down.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, 4127, %r
// PTX:            shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 31, -1;
// PTX-NEXT:       shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 3, 31, -1;
// PTX:            cvt.u32.u16
// PTX-NEXT:       shfl.sync.idx.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 0, 6175, -1;
// PTX:            vote.sync.ballot.b32 %r{{[0-9]+}}, %p{{[0-9]+}}, %r
// PTX:            vote.sync.any.pred %p{{[0-9]+}}, %p{{[0-9]+}}, -1;
// PTX:            vote.sync.all.pred %p{{[0-9]+}}, %p{{[0-9]+}}, -1;
// PTX:            match.any.sync.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, -1;
// PTX:            match.all.sync.b64 %r{{[0-9]+}}|%p{{[0-9]+}}, %rd{{[0-9]+}}, -1;

// SASS:           S2R R{{[0-9]+}}, SR_LANEID ;
// SASS-DAG:       SHFL.UP PT, R{{[0-9]+}}, R{{[0-9]+}}, 0x1, RZ ;
// SASS-DAG:       SHFL.DOWN
// SASS-DAG:       SHFL.BFLY PT, R{{[0-9]+}}, R{{[0-9]+}}, 0x3, 0x1f ;
// SASS-DAG:       SHFL.IDX PT, R{{[0-9]+}}, R{{[0-9]+}}, RZ, 0x181f ;
// SASS-DAG:       VOTE.ANY R{{[0-9]+}}, PT, {{!?}}P
// SASS-DAG:       VOTE.ANY P
// SASS-DAG:       VOTE.ALL P
// SASS-DAG:       MATCH.ANY R
// SASS-DAG:       MATCH.ALL.U64 PT, R

simt.kernel @warps(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) attributes {block_size = array<i32: 64, 1, 1>} {
  %i = simt.thread_idx "x" : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %full = arith.constant -1 : i32
  %lane = simt.lane_id : i32
  %warp = simt.warp_id : i32
  %v = simt.load %a[%i : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %c = arith.cmpi slt, %v, %n : i32
  %up = simt.shuffle "up" %v, %one mask %full width 32 : i32
  %xv = arith.sitofp %v : i32 to f32
  %down = simt.shuffle "down" %xv, %lane mask %n width 16 : f32
  %dv = arith.sitofp %v : i32 to f64
  %xor = simt.shuffle "xor" %dv, %three mask %full width 32 : f64
  %hv = arith.sitofp %v : i32 to f16
  %idx = simt.shuffle "idx" %hv, %zero mask %full width 8 : f16
  %ballot = simt.vote "ballot" %c mask %n : i32
  %any = simt.vote "any" %c mask %full : i1
  %all = simt.vote "all" %c mask %full : i1
  %peers = simt.match "any" %v mask %full : i32
  %wv = arith.extsi %v : i32 to i64
  %same = simt.match "all" %wv mask %full : i64
  %f0 = arith.fptosi %down : f32 to i32
  %f1 = arith.fptosi %xor : f64 to i32
  %f2 = arith.fptosi %idx : f16 to i32
  %f3 = arith.extui %any : i1 to i32
  %f4 = arith.extui %all : i1 to i32
  %s0 = arith.xori %up, %f0 : i32
  %s1 = arith.xori %s0, %f1 : i32
  %s2 = arith.xori %s1, %f2 : i32
  %s3 = arith.addi %s2, %f3 : i32
  %s4 = arith.xori %s3, %f4 : i32
  %s5 = arith.xori %s4, %peers : i32
  %s6 = arith.xori %s5, %same : i32
  %s7 = arith.xori %s6, %warp : i32
  %s8 = arith.xori %s7, %ballot : i32
  simt.store %s8, %a[%i : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
