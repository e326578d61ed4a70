// RUN: check_arithmetic
// A check stands after each operation whose result a program may not mean; a sum has one if its integers are signed.

// CHECK_ARITHMETIC:      simt.kernel @arithmetic(
// CHECK_ARITHMETIC-NEXT:   %plain = arith.addi %a, %b : i32
// CHECK_ARITHMETIC-NEXT:   %sum = arith.addi %a, %b {weft.signed} : i32
// CHECK_ARITHMETIC-NEXT:   %0 = arith.extsi %a : i32 to i64
// CHECK_ARITHMETIC-NEXT:   %1 = arith.extsi %b : i32 to i64
// CHECK_ARITHMETIC-NEXT:   %2 = arith.addi %0, %1 : i64
// CHECK_ARITHMETIC-NEXT:   %3 = arith.extsi %sum : i32 to i64
// CHECK_ARITHMETIC-NEXT:   %4 = arith.cmpi eq, %2, %3 : i64
// CHECK_ARITHMETIC-NEXT:   %5 = arith.extsi %a : i32 to i64
// CHECK_ARITHMETIC-NEXT:   %6 = arith.extsi %b : i32 to i64
// CHECK_ARITHMETIC-NEXT:   simt.check %4, "overflow" "i32" "+" 1 values(%5, %6)
// CHECK_ARITHMETIC-NEXT:   %quotient = simt.floor_div %a, %b : i32
// CHECK_ARITHMETIC-NEXT:   %7 = arith.constant 0 : i32
// CHECK_ARITHMETIC-NEXT:   %8 = arith.cmpi ne, %b, %7 : i32
// CHECK_ARITHMETIC-NEXT:   %9 = arith.extsi %a : i32 to i64
// CHECK_ARITHMETIC-NEXT:   %10 = arith.extsi %b : i32 to i64
// CHECK_ARITHMETIC-NEXT:   simt.check %8, "division_by_zero" "i32" "//" 1 values(%9, %10)
// CHECK_ARITHMETIC-NEXT:   %shifted = arith.shli %a, %b : i32
// CHECK_ARITHMETIC-NEXT:   %11 = arith.constant 32 : i32
// CHECK_ARITHMETIC-NEXT:   %12 = arith.cmpi ult, %b, %11 : i32
// CHECK_ARITHMETIC-NEXT:   %13 = arith.extsi %a : i32 to i64
// CHECK_ARITHMETIC-NEXT:   %14 = arith.extsi %b : i32 to i64
// CHECK_ARITHMETIC-NEXT:   simt.check %12, "shift_past_the_width" "32 bits" "<<" 1 values(%13, %14)
// CHECK_ARITHMETIC-NEXT:   %number = arith.fptosi %x : f32 to i32
// CHECK_ARITHMETIC-NEXT:   %15 = arith.extf %x : f32 to f64
// CHECK_ARITHMETIC-NEXT:   %16 = arith.constant 0xC1E0000000200000 : f64
// CHECK_ARITHMETIC-NEXT:   %17 = arith.constant 0x41E0000000000000 : f64
// CHECK_ARITHMETIC-NEXT:   %18 = arith.cmpf ogt, %15, %16 : f64
// CHECK_ARITHMETIC-NEXT:   %19 = arith.cmpf olt, %15, %17 : f64
// CHECK_ARITHMETIC-NEXT:   %20 = arith.andi %18, %19 : i1
// CHECK_ARITHMETIC-NEXT:   %21 = arith.bitcast %15 : f64 to i64
// CHECK_ARITHMETIC-NEXT:   simt.check %20, "conversion_out_of_range" "i32" "i32" 1 values(%21)
// CHECK_ARITHMETIC-NEXT:   %difference = arith.subf %x, %x : f32
// CHECK_ARITHMETIC-NEXT:   %22 = arith.cmpf ord, %difference, %difference : f32
// CHECK_ARITHMETIC-NEXT:   %23 = arith.cmpf uno, %x, %x : f32
// CHECK_ARITHMETIC-NEXT:   %24 = arith.ori %22, %23 : i1
// CHECK_ARITHMETIC-NEXT:   %25 = arith.cmpf uno, %x, %x : f32
// CHECK_ARITHMETIC-NEXT:   %26 = arith.ori %24, %25 : i1
// CHECK_ARITHMETIC-NEXT:   %27 = arith.extf %x : f32 to f64
// CHECK_ARITHMETIC-NEXT:   %28 = arith.bitcast %27 : f64 to i64
// CHECK_ARITHMETIC-NEXT:   %29 = arith.extf %x : f32 to f64
// CHECK_ARITHMETIC-NEXT:   %30 = arith.bitcast %29 : f64 to i64
// CHECK_ARITHMETIC-NEXT:   simt.check %26, "new_nan" "f32" "-" 1 values(%28, %30)
// CHECK_ARITHMETIC-NEXT:   simt.return

simt.kernel @arithmetic(%a: i32, %b: i32, %x: f32) {
  %plain = arith.addi %a, %b : i32
  %sum = arith.addi %a, %b {weft.signed} : i32
  %quotient = simt.floor_div %a, %b : i32
  %shifted = arith.shli %a, %b : i32
  %number = arith.fptosi %x : f32 to i32
  %difference = arith.subf %x, %x : f32
  simt.return
}
