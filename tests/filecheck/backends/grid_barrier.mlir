// RUN: ptx
// RUN: sass
// One thread per block releases into the counter of the launch and acquires from it, between two block barriers.

// PTX:            bar.sync 0;
// PTX:            bra [[DONE:.*]];
// PTX-DAG:        mov.b32 [[HIGH:%r[0-9]+]], %envreg1;
// PTX-DAG:        mov.b32 [[LOW:%r[0-9]+]], %envreg2;
// PTX:            fence.acq_rel.gpu;
// PTX-NEXT:       atom.global.add.u32 [[BEFORE:%r[0-9]+]], [%rd{{[0-9]+}}+4], %
// PTX:            [[SPIN:.*]]:
// PTX:            ld.acquire.gpu.global.b32 [[NOW:%r[0-9]+]], [%rd{{[0-9]+}}+4];
// PTX:            xor.b32 %r{{[0-9]+}}, [[NOW]], [[BEFORE]];
// PTX:            bra [[SPIN]];
// PTX:            [[DONE]]:
// PTX:            bar.sync 0;

// SASS:           BAR.SYNC.DEFER_BLOCKING 0x0 ;
// SASS:           ATOMG.E.ADD.STRONG.GPU
// SASS:           LDG.E.STRONG.GPU
// SASS:           BAR.SYNC.DEFER_BLOCKING 0x0 ;

simt.kernel @grid(%a: !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>, %n: i32) {
  simt.store %n, %a[%n : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.grid_barrier
  simt.store %n, %a[%n : i32] : i32, !simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>
  simt.return
}
