// RUN: expand_profiler_events
// A mark becomes a clock and a store where room for all records is proved, and the track ends wherever a thread leaves.
// What the launch must give memory for is computed from its grid: 16 words and 6 of text, and 8 + 5 for each block.

// EXPAND_PROFILER_EVENTS:      simt.kernel @k(%n: i32 {weft.name = "n"}, %profile: !simt.tensor<i64, [?], {{.*}}attributes {profile_argument = 1 : i32}
// EXPAND_PROFILER_EVENTS-NOT:  simt.mark
// EXPAND_PROFILER_EVENTS:      simt.record "clock32"
// EXPAND_PROFILER_EVENTS:      scf.for
// EXPAND_PROFILER_EVENTS:      simt.record "clock32"
// EXPAND_PROFILER_EVENTS:      simt.timer "globaltimer"
// EXPAND_PROFILER_EVENTS:      simt.exit
// EXPAND_PROFILER_EVENTS:      simt.timer "globaltimer"
// EXPAND_PROFILER_EVENTS:      simt.return
// EXPAND_PROFILER_EVENTS:      simt.launch_ex @k grid({{.*}}) block({{.*}}) records


simt.kernel @k(%n: i32 {weft.name = "n"}) {
  %p = simt.track_profiler {kernel = "k", groups = ["all"], events = ["loop", "round"]}
  %zero = arith.constant 0 : i64
  %low = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %four = arith.constant 4 : i32
  simt.mark "init" %p group %zero
  simt.mark "start" %p event 0
  %i = simt.thread_idx "x" : i32
  %c = arith.cmpi sge, %i, %n : i32
  scf.for %k = %low to %four step %one : i32 {
    simt.mark "instant" %p event 1
  }
  scf.if %c {
    simt.exit
  } else {
    simt.mark "end" %p event 0
  }
  simt.return
}
func.func @host(%n: i32, %blocks: i64) {
  %one = arith.constant 1 : i64
  simt.launch_ex @k grid(%blocks, %one, %one) block(%one, %one, %one) args(%n : i32)
  func.return
}
