// RUN: fuse_multiply_adds
// A marked product and its sum are one operation, the left one where both are products, in f32 and f64; no mark is left. A
// product that is used twice, stands in another block, is not marked or narrower stays, as in a kernel that asks for it.

// FUSE_MULTIPLY_ADDS:      simt.kernel @each(%a: f32, %b: f32, %c: f32) {
// FUSE_MULTIPLY_ADDS-NEXT:   %sum = math.fma %a, %b, %c : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %right = math.fma %a, %b, %sum : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %0 = arith.negf %right : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %less = math.fma %a, %b, %0 : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %1 = arith.negf %a : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %from = math.fma %1, %b, %less : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %q = arith.mulf %b, %c : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %both = math.fma %a, %b, %q : f32
// FUSE_MULTIPLY_ADDS-NEXT:   simt.printf
// FUSE_MULTIPLY_ADDS:      simt.kernel @stays(%a: f32, %b: f32, %h: f16, %again: i1) {
// FUSE_MULTIPLY_ADDS-NEXT:   %p = arith.mulf %a, %b : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %twice = arith.addf %p, %p : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %r = arith.mulf %a, %b : f32
// FUSE_MULTIPLY_ADDS-NEXT:   scf.if %again {
// FUSE_MULTIPLY_ADDS-NEXT:     %inside = arith.addf %r, %a : f32
// FUSE_MULTIPLY_ADDS:        %s = arith.mulf %a, %b : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %unmarked = arith.addf %s, %a : f32
// FUSE_MULTIPLY_ADDS-NEXT:   %t = arith.mulf %h, %h : f16
// FUSE_MULTIPLY_ADDS-NEXT:   %narrow = arith.addf %t, %h : f16
// FUSE_MULTIPLY_ADDS:      simt.kernel @off(%a: f64) attributes {fp_contract = false} {
// FUSE_MULTIPLY_ADDS-NEXT:   %p = arith.mulf %a, %a : f64
// FUSE_MULTIPLY_ADDS-NEXT:   %sum = arith.addf %p, %a : f64
// FUSE_MULTIPLY_ADDS:      func.func @host(%a: f64) -> f64 {
// FUSE_MULTIPLY_ADDS-NEXT:   %sum = math.fma %a, %a, %a : f64

simt.kernel @each(%a : f32, %b : f32, %c : f32) {
  %p1 = arith.mulf %a, %b fastmath<contract> : f32
  %sum = arith.addf %p1, %c : f32
  %p2 = arith.mulf %a, %b fastmath<contract> : f32
  %right = arith.addf %sum, %p2 : f32
  %p3 = arith.mulf %a, %b fastmath<contract> : f32
  %less = arith.subf %p3, %right : f32
  %p4 = arith.mulf %a, %b fastmath<contract> : f32
  %from = arith.subf %less, %p4 : f32
  %p5 = arith.mulf %a, %b fastmath<contract> : f32
  %q = arith.mulf %b, %c fastmath<contract> : f32
  %both = arith.addf %p5, %q : f32
  simt.printf "%f %f"(%from, %both : f32, f32)
  simt.return
}
simt.kernel @stays(%a : f32, %b : f32, %h : f16, %again : i1) {
  %p = arith.mulf %a, %b fastmath<contract> : f32
  %twice = arith.addf %p, %p : f32
  %r = arith.mulf %a, %b fastmath<contract> : f32
  scf.if %again {
    %inside = arith.addf %r, %a : f32
  }
  %s = arith.mulf %a, %b : f32
  %unmarked = arith.addf %s, %a : f32
  %t = arith.mulf %h, %h fastmath<contract> : f16
  %narrow = arith.addf %t, %h : f16
  simt.return
}
simt.kernel @off(%a : f64) attributes {fp_contract = false} {
  %p = arith.mulf %a, %a fastmath<contract> : f64
  %sum = arith.addf %p, %a : f64
  simt.return
}
func.func @host(%a : f64) -> f64 {
  %p = arith.mulf %a, %a fastmath<contract> : f64
  %sum = arith.addf %p, %a : f64
  func.return %sum : f64
}
