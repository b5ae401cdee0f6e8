// b_columns(start, row, column): four columns of a row of b, which lies by rows of n; zeros below
// its last row, anything right of it.

//#param VECTOR_N: bool // n is a multiple of 4
//#param ENDS: bool // row may be past the last one

fn b_columns(start: u32, row: u32, column: u32) -> vec4<f32> {
  //#let ROW = ENDS ? "min(row, params.k - 1u)" : "row"
  //#if VECTOR_N
  let v = b_at(start + (ROW * params.n + min(column, params.n - 4u)) / 4u);
  //#else
  let first = start + ROW * params.n;
  let last = params.n - 1u;
  let v = vec4<f32>(
    b_at(first + min(column, last)),
    b_at(first + min(column + 1u, last)),
    b_at(first + min(column + 2u, last)),
    b_at(first + min(column + 3u, last)),
  );
  //#endif
  //#if ENDS
  return select(vec4<f32>(), v, vec4<bool>(row < params.k));
  //#else
  return v;
  //#endif
}
