// RUN: hoist_loads
// Loads, and what their addresses are computed from, start before the first square root or division since the last write; not
// those whose address needs its result, not volatile ones, not over a write, and not out of a branch.

// HOIST_LOADS-LABEL: simt.kernel @starts(
// HOIST_LOADS:         %x = simt.load %a[%i : i32]
// HOIST_LOADS-NEXT:    %j = arith.addi %i, %one : i32
// HOIST_LOADS-NEXT:    %y = simt.load %a[%j : i32]
// HOIST_LOADS-NEXT:    %root = math.sqrt %x : f32
// HOIST_LOADS-NEXT:    %place = arith.fptosi %root : f32 to i32
// HOIST_LOADS-NEXT:    %z = simt.load %a[%place : i32]
// HOIST_LOADS-NEXT:    simt.store %z, %a[%j : i32]
// HOIST_LOADS-NEXT:    %w = simt.load %a[%i : i32]
// HOIST_LOADS-NEXT:    %part = arith.divf %w, %y : f32
// HOIST_LOADS-NEXT:    %v = simt.load volatile %a[%i : i32]
// HOIST_LOADS-NEXT:    scf.if
// HOIST_LOADS-NEXT:      simt.load %a[%j : i32]

simt.kernel @starts(%a: !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>, %i: i32, %some: i1) {
  %one = arith.constant 1 : i32
  %x = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %root = math.sqrt %x : f32
  %place = arith.fptosi %root : f32 to i32
  %j = arith.addi %i, %one : i32
  %y = simt.load %a[%j : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %z = simt.load %a[%place : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  simt.store %z, %a[%j : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  %w = simt.load %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  %part = arith.divf %w, %y : f32
  %v = simt.load volatile %a[%i : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
  scf.if %some {
    %u = simt.load %a[%j : i32] : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4> -> f32
    %total = arith.addf %u, %v : f32
    simt.store %total, %a[%i : i32] : f32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>
  }
  simt.return
}
