// RUN: expand_profiler_events
// TIRx's profiler: a mark is a time, a track and an event, stored where the cursor is below the limit; then the cursor
// moves by the stride. A leader claims its track with an exchange before its first record.

// EXPAND_PROFILER_EVENTS:      simt.kernel @k(%words: !simt.tensor<i64, [?]
// EXPAND_PROFILER_EVENTS-NOT:  simt.tirx_profiler
// EXPAND_PROFILER_EVENTS-NOT:  simt.mark
// EXPAND_PROFILER_EVENTS:      [[START:%[0-9]+]] = arith.constant 20 : i32
// EXPAND_PROFILER_EVENTS:      [[END:%[0-9]+]] = arith.constant 21 : i32
// EXPAND_PROFILER_EVENTS:      simt.atomic_rmw "umax"
// EXPAND_PROFILER_EVENTS:      simt.atomic_rmw "exchange"
// EXPAND_PROFILER_EVENTS:      [[TAG:%[0-9]+]] = arith.ori {{.*}}, [[START]] : i32
// EXPAND_PROFILER_EVENTS:      simt.record "globaltimer" {{.*}}, [[TAG]], %words
// EXPAND_PROFILER_EVENTS:      simt.fence
// EXPAND_PROFILER_EVENTS:      simt.fence
// EXPAND_PROFILER_EVENTS:      [[TAG2:%[0-9]+]] = arith.ori {{.*}}, [[END]] : i32
// EXPAND_PROFILER_EVENTS:      simt.record "globaltimer" {{.*}}, [[TAG2]], %words
// EXPAND_PROFILER_EVENTS:      simt.return

simt.kernel @k(%words: !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 32, align 8> {weft.name = "words"}) {
  %zero = arith.constant 0 : i64
  %groups = arith.constant 1 : i64
  %stride = arith.constant 4 : i64
  %first = arith.constant 0 : i32
  %tid = simt.thread_idx "x" : i32
  %leads = arith.cmpi eq, %tid, %first : i32
  %p = simt.tirx_profiler buffer %words : !simt.tensor<i64, [?], contiguous, global, dims 32, offsets 32, align 8> stride %stride groups %groups leader %leads {fence}
  simt.mark "init" %p group %zero
  simt.mark "start" %p event 5
  simt.mark "end" %p event 5
  simt.return
}
