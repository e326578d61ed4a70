// RUN: llvm-cuda
// RUN: ptx
// RUN: sass
// Each thread of 384 begins with 168 registers; the assembler needs that limit, or it ignores the instructions. What a
// kernel waits for touches memory.

// LLVM-CUDA:      define ptx_kernel void @registers(i8 %c.scalar) convergent nounwind "nvvm.maxntid"="384" "nvvm.maxnreg"="168"
// LLVM-CUDA:      call void asm sideeffect "griddepcontrol.wait;", "~{memory}"() convergent nounwind
// LLVM-CUDA:      call void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32 40) convergent
// LLVM-CUDA:      call void @llvm.nvvm.setmaxnreg.inc.sync.aligned.u32(i32 232) convergent
// LLVM-CUDA:      call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"() convergent nounwind

// PTX:            .maxnreg 168
// PTX:            griddepcontrol.wait;
// PTX:            setmaxnreg.dec.sync.aligned.u32 {{[ ]*}}40;
// PTX:            setmaxnreg.inc.sync.aligned.u32 {{[ ]*}}232;
// PTX:            griddepcontrol.launch_dependents;

// SASS:           ACQBULK
// SASS:           USETMAXREG.DEALLOC.CTAPOOL 0x28
// SASS:           USETMAXREG.TRY_ALLOC.CTAPOOL
// SASS:           PREEXIT

simt.kernel @registers(%c: i1) attributes {max_threads = 384 : i32} {
  nvgpu.grid_dependency_wait
  scf.if %c {
    nvgpu.setmaxnreg 40
  } else {
    nvgpu.setmaxnreg 232
  }
  nvgpu.grid_dependency_launch
  simt.return
}
