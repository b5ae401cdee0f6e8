// tile_column(first, i): the row of b (layout nk) that makes column i of a tile, whose first one is
// column first of the result; clamped to the last.
//
// In a gated linear unit, half of a tile's columns are from each half of b: columns i and
// STORED_COLUMNS + i make column first + i of the result.

//#param TILE_COLUMNS: u32
//#param GLU: bool = false

//#let STORED_COLUMNS = GLU ? TILE_COLUMNS / 2 : TILE_COLUMNS
fn tile_column(first: u32, i: u32) -> u32 {
  //#if GLU
  return i / STORED_COLUMNS * params.n + min(first + i % STORED_COLUMNS, params.n - 1u);
  //#else
  return min(first + i, params.n - 1u);
  //#endif
}
