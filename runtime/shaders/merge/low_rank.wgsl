// W += up · diag(scales) · down, in place: adds a product of rank R to rows of a matrix. Sums are f32
// and are rounded once. Elements to which nothing is added keep their bits.
//
// Every invocation has ROWS rows of WORDS times 4 columns. flags[flag] becomes 1 where a magnitude is
// above `most`. Grid: words / (LANES WORDS), rows / ROWS.

//#let ROWS = 4
//#let WORDS = 2
//#let LANES = 16

//#buffer read_write weight 4 exact // [N, 4 words], of which rows first_row … are changed
//#buffer read       up     4 // [rows, 4 rank_words]
//#buffer read       down   4 // [4 rank_words, 4 words]
//#buffer read       scales 4 // [4 rank_words]
//#buffer read_write flags  1
//#uniform first_row: u32
//#uniform rows: u32
//#uniform words: u32 // of four elements, in a row
//#uniform rank_words: u32 // of four ranks
//#uniform flag: u32
//#uniform most: f32
//#workgroup LANES, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let row = wg.y * ROWS;
  let column = wg.x * LANES * WORDS + local.x;
  //#for R in 0..ROWS
  let up_R = min(row + R, params.rows - 1u) * params.rank_words;
  //#for W in 0..WORDS
  var sum_R_W = vec4<f32>();
  //#endfor
  //#endfor
  //#for W in 0..WORDS
  let column_W = min(column + LANES * W, params.words - 1u);
  //#endfor
  for (var r = 0u; r < params.rank_words; r++) {
    let first = r * 4u * params.words;
    let scale = scales_at(r);
    //#for R in 0..ROWS
    let u_R = up_at(up_R + r) * scale;
    //#endfor
    //#for W in 0..WORDS, I in 0..4
    let d_W_I = down_at(first + I * params.words + column_W);
    //#endfor
    //#for R in 0..ROWS, W in 0..WORDS
    sum_R_W += u_R.x * d_W_0 + u_R.y * d_W_1 + u_R.z * d_W_2 + u_R.w * d_W_3;
    //#endfor
  }
  //#for R in 0..ROWS, W in 0..WORDS
  add(row + R, column + LANES * W, sum_R_W);
  //#endfor
}

fn add(row: u32, column: u32, sum: vec4<f32>) {
  if (row >= params.rows || column >= params.words || all(sum == vec4<f32>())) { return; }
  let at = (params.first_row + row) * params.words + column;
  let value = weight_at(at) + sum;
  if (!all(abs(value) <= vec4<f32>(params.most))) { flags_put(params.flag, 1u); }
  weight_put(at, value);
}
