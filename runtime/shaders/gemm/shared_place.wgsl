// In gemm/shared.wgsl: ROW and WORD are where the vec4 of b that an invocation brings as its I-th
// belongs in tile_b.

//#param I: u32
//#param PASS: u32

//#if PASS == 0 && LAYOUT == kn
// Neighbouring invocations read neighbouring columns.
//#let ROW = "((thread + I * COUNT) % TILE_COLUMNS)"
//#let WORD = "((thread + I * COUNT) / TILE_COLUMNS)"
//#elif PASS == 0 && QUANTIZED
// An invocation brings neighbours along the sum, up to four, which have one scale.
//#let PER_ROW = DEPTH / B_LOADS
//#let ROW = "(thread / PER_ROW)"
//#let WORD = "(thread % PER_ROW * B_LOADS + I)"
//#else
//#let ROW = "(thread / DEPTH + I * COUNT / DEPTH)"
//#let WORD = "(thread % DEPTH)"
//#endif
