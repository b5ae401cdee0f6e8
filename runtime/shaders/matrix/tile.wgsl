// Tiles for matrix units, shared by matrix products and convolutions: factors in workgroup memory,
// sums that go back through workgroup memory. Subgroups lie in two columns over the tile.

//#include "matrix/unit.wgsl"

//#param TILE_ROWS: u32 // of the result, a multiple of 32
//#param TILE_COLUMNS: u32 // likewise
//#param LAYOUT: nk | kn // tile_b has a row for every column of the result, or for every step of the sum

//#param DEPTH: u32 = 8 // vec4s along the sum that lie in a tile; a multiple of UNIT_K elements
//#param TILES: u32 = 1 // of each factor
//#param SUM_COLUMNS: u32 = 0 // of a subgroup's sums that go through workgroup memory at a time; 0: all

//#let A_STEP = DEPTH + 2 // vec4s from one row of tile_a to the next: padded, so that rows lie in different banks
//#let B_ROWS = LAYOUT == nk ? TILE_COLUMNS : 4 * DEPTH
//#let B_STEP = LAYOUT == nk ? DEPTH + 2 : TILE_COLUMNS / 4 + 2
//#let A_TILE = TILE_ROWS * A_STEP // vec4s of a tile
//#let B_TILE = B_ROWS * B_STEP
//#let A_LOADS = TILE_ROWS * DEPTH / THREADS // vec4s of a tile that an invocation brings
//#let B_LOADS = TILE_COLUMNS * DEPTH / THREADS
//#let OWN_ROWS = 2 * TILE_ROWS / SUBGROUPS // of a subgroup
//#let OWN_COLUMNS = TILE_COLUMNS / 2
//#let ROW_UNITS = OWN_ROWS / UNIT_M // multiplications along them
//#let COLUMN_UNITS = OWN_COLUMNS / UNIT_N
//#let STRIP = SUM_COLUMNS == 0 ? OWN_COLUMNS : SUM_COLUMNS
//#let STRIPS = OWN_COLUMNS / STRIP
//#let STRIP_UNITS = STRIP / UNIT_N
//#let WORDS = STRIP / 4 // vec4s of a row of a strip of a subgroup's sums
//#let SUM_STEP = WORDS + 1 // from one row to the next: padded, too
//#let PART = UNIT_M * WORDS // vec4s of a subgroup's sums that go through workgroup memory at a time
//#let ROWS_AT_ONCE = THREADS / DEPTH // rows of a tile that the workgroup brings at a time

var<workgroup> tile_a: array<vec4<ELEMENT>, TILES * A_TILE>;
var<workgroup> tile_b: array<vec4<ELEMENT>, TILES * B_TILE>;
var<workgroup> tile_sums: array<vec4<f32>, SUBGROUPS * UNIT_M * SUM_STEP>;

// Four sums, and where they belong in the tile.
struct Sum {
  row: u32,
  column: u32,
  value: vec4<f32>,
}

// Sum number item of those in workgroup memory, which are rows first_row … and columns first_column …
// of every subgroup's part.
fn sum_of(item: u32, first_row: u32, first_column: u32) -> Sum {
  let part = item / PART;
  let in_row = item / WORDS % UNIT_M;
  let row = part / 2u * OWN_ROWS + first_row + in_row;
  let column = part % 2u * OWN_COLUMNS + first_column + item % WORDS * 4u;
  return Sum(row, column, tile_sums[part * UNIT_M * SUM_STEP + in_row * SUM_STEP + item % WORDS]);
}
