// Multiplies the subgroup's parts of both tiles and adds to its sums s_I_J.
// A loop, so that software adapters compile it in seconds; compilers of GPUs unroll it.

//#param LAYOUT: nk | kn
//#param A_AT: wgsl = "0u" // where the tiles begin
//#param B_AT: wgsl = "0u"

//#let STEPS = 4 * DEPTH / UNIT_K
for (var d = 0u; d < STEPS; d = d + 1u) {
  let first_row = subgroup / 2u * OWN_ROWS;
  let first_column = subgroup % 2u * OWN_COLUMNS;
  //#for I in 0..ROW_UNITS
  let row_I = first_row + I * UNIT_M;
  let l_I = subgroupMatrixLoad<LEFT, row_major>(&tile_a, A_AT + row_I * A_STEP + d * UNIT_K / 4u, A_STEP);
  //#endfor
  //#for J in 0..COLUMN_UNITS
  let column_J = first_column + J * UNIT_N;
  //#if LAYOUT == nk
  let r_J = subgroupMatrixLoad<RIGHT, col_major>(&tile_b, B_AT + column_J * B_STEP + d * UNIT_K / 4u, B_STEP);
  //#else
  let r_J = subgroupMatrixLoad<RIGHT, row_major>(&tile_b, B_AT + d * UNIT_K * B_STEP + column_J / 4u, B_STEP);
  //#endif
  //#endfor
  //#for I in 0..ROW_UNITS, J in 0..COLUMN_UNITS
  s_I_J = subgroupMatrixMultiplyAccumulate(l_I, r_J, s_I_J);
  //#endfor
}
