// y[i] = table[indices[i]] + addend[i], row by row; an index past the end takes the last row.
//
// Grid: count / 64.

//#param WIDTH: u32
//#param ADDEND: bool = false

//#buffer read       table   WIDTH // [rows, words * WIDTH]
//#buffer read       indices 1     // u32 [count / words]
//#if ADDEND
//#buffer read       addend  WIDTH // [count / words, words * WIDTH]
//#endif
//#buffer read_write y       WIDTH
//#uniform count: u32 // words of y
//#uniform words: u32 // of a row
//#uniform rows: u32
//#workgroup 64, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let row = min(indices_at(i / params.words), params.rows - 1u);
  let value = table_at(row * params.words + i % params.words);
  //#if ADDEND
  y_put(i, value + addend_at(i));
  //#else
  y_put(i, value);
  //#endif
}
