// RUN: trace_accesses
// After each access stand its array, its indices and its values, as the language calls their types; after a barrier that the
// thread has waited, and after a copy beside the threads that it has begun.

// TRACE_ACCESSES:      simt.kernel @told(
// TRACE_ACCESSES-NEXT:   %i = simt.thread_idx "x" : i32
// TRACE_ACCESSES-NEXT:   %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// TRACE_ACCESSES-NEXT:   %x = simt.load %a[%i : i32] {weft.element_type = "f32"} : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> -> f32
// TRACE_ACCESSES-NEXT:   simt.event "read" "a" "" "index32 f32"(%i, %x : i32, f32)
// TRACE_ACCESSES-NEXT:   simt.store %x, %tile[%i : i32] : f32, !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// TRACE_ACCESSES-NEXT:   simt.event "written" "tile" "" "index32 f32"(%i, %x : i32, f32)
// TRACE_ACCESSES-NEXT:   nvgpu.cp_async_copy 1 to %tile[%i : i32] from %a[%i : i32] : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
// TRACE_ACCESSES-NEXT:   simt.event "copy" "" "" ""
// TRACE_ACCESSES-NEXT:   simt.barrier
// TRACE_ACCESSES-NEXT:   simt.event "barrier" "" "" ""
// TRACE_ACCESSES-NEXT:   simt.return

simt.kernel @told(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> {weft.name = "a"}) {
  %i = simt.thread_idx "x" : i32
  %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
  %x = simt.load %a[%i : i32] {weft.element_type = "f32"} : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> -> f32
  simt.store %x, %tile[%i : i32] : f32, !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
  nvgpu.cp_async_copy 1 to %tile[%i : i32] from %a[%i : i32] : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
  simt.barrier
  simt.return
}
