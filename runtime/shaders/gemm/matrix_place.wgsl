// In gemm/matrix.wgsl: ROW and WORD are where the vec4 of b that an invocation brings as its I-th
// belongs in tile_b.

//#param I: u32
//#param PASS: u32

//#if PASS == 0 && LAYOUT == kn
// Four columns of one step of the sum.
//#let B_WORDS = TILE_COLUMNS / 4
//#let ROW = "((thread + I * THREADS) / B_WORDS)"
//#let WORD = "(thread + I * THREADS) % B_WORDS"
//#elif PASS == 0 && QUANTIZED
// Blocks lie along the sum: neighbours, up to four, have one scale.
//#let RUN = B_LOADS < 4 ? B_LOADS : 4
//#let PER_ROW = DEPTH / RUN
//#let GROUP = I / RUN
//#let IN_RUN = I % RUN
//#let ROW = "((thread + GROUP * THREADS) / PER_ROW)"
//#let WORD = "((thread + GROUP * THREADS) % PER_ROW * RUN + IN_RUN)"
//#else
//#let ROW = "(thread / DEPTH + I * ROWS_AT_ONCE)"
//#let WORD = "thread % DEPTH"
//#endif
