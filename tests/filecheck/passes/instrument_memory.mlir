// RUN: instrument_memory
// Before each access stands what it does to which memory, for which checks, and before and after a copy beside the threads
// when it begins and ends; a fence is an event.

// INSTRUMENT_MEMORY:      simt.kernel @shared(
// INSTRUMENT_MEMORY-NEXT:   %i = simt.thread_idx "x" : i32
// INSTRUMENT_MEMORY-NEXT:   %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// INSTRUMENT_MEMORY-NEXT:   %0 = simt.dim %a[0] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> -> i32
// INSTRUMENT_MEMORY-NEXT:   simt.watch "reads races" "" "read" 1 %a[%i : i32] sizes(%0 : i32) : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
// INSTRUMENT_MEMORY-NEXT:   %x = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> -> f32
// INSTRUMENT_MEMORY-NEXT:   %1 = arith.constant 64 : i64
// INSTRUMENT_MEMORY-NEXT:   simt.watch "writes shared races uninit" "" "written" 1 %tile[%i : i32] sizes(%1 : i64) : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// INSTRUMENT_MEMORY-NEXT:   simt.store %x, %tile[%i : i32] : f32, !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// INSTRUMENT_MEMORY-NEXT:   simt.watch_event "fence" 0
// INSTRUMENT_MEMORY-NEXT:   simt.fence "device"
// INSTRUMENT_MEMORY-NEXT:   simt.return
// INSTRUMENT_MEMORY:      simt.kernel @copied(
// INSTRUMENT_MEMORY-NEXT:   %i = simt.thread_idx "x" : i32
// INSTRUMENT_MEMORY-NEXT:   %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// INSTRUMENT_MEMORY-NEXT:   %0 = arith.constant 4 : i64
// INSTRUMENT_MEMORY-NEXT:   simt.watch_copy "writes shared races uninit async elements" "tile" 0 "written" %0 at %tile[%i : i32] plus 0 : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
// INSTRUMENT_MEMORY-NEXT:   %1 = arith.constant 4 : i64
// INSTRUMENT_MEMORY-NEXT:   simt.watch_copy "reads races async elements" "a" -1 "read" %1 at %a[%i : i32] plus 0 : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
// INSTRUMENT_MEMORY-NEXT:   nvgpu.cp_async_copy 1 to %tile[%i : i32] from %a[%i : i32] : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
// INSTRUMENT_MEMORY-NEXT:   simt.watch_event "commit" 0
// INSTRUMENT_MEMORY-NEXT:   nvgpu.cp_async_commit
// INSTRUMENT_MEMORY-NEXT:   nvgpu.cp_async_wait 1
// INSTRUMENT_MEMORY-NEXT:   simt.watch_event "elements" 1
// INSTRUMENT_MEMORY-NEXT:   simt.return

simt.kernel @shared(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>, %n: i32) {
  %i = simt.thread_idx "x" : i32
  %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
  %x = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4> -> f32
  simt.store %x, %tile[%i : i32] : f32, !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
  simt.fence "device"
  simt.return
}
simt.kernel @copied(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>) {
  %i = simt.thread_idx "x" : i32
  %tile = simt.shared : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>
  nvgpu.cp_async_copy 1 to %tile[%i : i32] from %a[%i : i32] : !simt.tensor<f32, [64], contiguous, shared, dims 32, offsets 32, align 16>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
  nvgpu.cp_async_commit
  nvgpu.cp_async_wait 1
  simt.return
}
