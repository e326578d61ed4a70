// RUN: ptx
// RUN: sass
// One instruction each; those of two halves side by side are packed, and a prefetch has a predicate and no branch.

// PTX-DAG:        prmt.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}};
// PTX-DAG:        lop3.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, 150;
// PTX-DAG:        dp4a.s32.u32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}};
// PTX-DAG:        nanosleep.u32 %r{{[0-9]+}};
// PTX-DAG:        @%p{{[0-9]+}} prefetch.global.L2 [%rd{{[0-9]+}}];

// SASS-DAG:       PRMT R{{[0-9]+}}, R{{[0-9]+}}, R{{[0-9]+}}, R{{[0-9]+}} ;
// SASS-DAG:       LOP3.LUT R{{[0-9]+}}, R{{[0-9]+}}, R{{[0-9]+}}, R{{[0-9]+}}, 0x96, !PT ;
// SASS-DAG:       IDP.4A.S8.U8
// SASS-DAG:       NANOSLEEP
// SASS-DAG:       CCTL.E.PF2

simt.kernel @words(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %thread = simt.thread_idx "x" : i32
  %inside = arith.cmpi slt, %thread, %n : i32
  nvgpu.prefetch %inside, %a[%thread : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  nvgpu.nanosleep %n
  %x = simt.load %a[%thread : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %y = simt.load %a[%n : i32] : !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4> -> i32
  %p = simt.prmt %x, %y, %n : i32
  %q = simt.lop3 %p, %y, %x table 150 : i32
  %r = simt.dp4a %q signed, %y, %x : i32
  simt.store %r, %a[%thread : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
