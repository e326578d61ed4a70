// RUN: find_block_sizes
// A kernel whose launches all have one constant block is made for it; one with two, or one that the run decides, is not.

// FIND_BLOCK_SIZES:      simt.kernel @same() attributes {block_size = array<i32: 128, 2, 1>} {
// FIND_BLOCK_SIZES:      simt.kernel @two() {
// FIND_BLOCK_SIZES:      simt.kernel @given() {

simt.kernel @same() {
  simt.return
}
simt.kernel @two() {
  simt.return
}
simt.kernel @given() {
  simt.return
}
func.func @host(%n: i64, %again: i1) {
  %one = arith.constant 1 : i64
  %rows = arith.constant 2 : i64
  %size = arith.constant 128 : i64
  simt.launch_ex @same grid(%n, %one, %one) block(%size, %rows, %one)
  simt.launch_ex @two grid(%n, %one, %one) block(%size, %one, %one)
  simt.launch_ex @given grid(%n, %one, %one) block(%n, %one, %one)
  scf.if %again {
    simt.launch_ex @same grid(%one, %one, %one) block(%size, %rows, %one)
    simt.launch_ex @two grid(%n, %one, %one) block(%size, %rows, %one)
  }
  func.return
}
