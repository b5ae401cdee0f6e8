// Names what a pass along the sum reads: A and B are a and b in the first one, t and up of the
// low-rank branch in the second. Declares row_words, the accesses from one row to the next, and
// steps, the vec4s of a row.

//#param PASS: u32
//#param VECTOR_K: bool
//#param VECTOR_RANK: bool

//#let A = PASS == 0 ? a : t
//#let B = PASS == 0 ? b : up
//#let LENGTH = PASS == 0 ? "params.k" : "params.rank"
//#let A_FIRST = PASS == 0 ? "a_start" : "0u"
//#let B_FIRST = PASS == 0 ? "b_start" : "0u"
//#let ROW_WIDTH = (PASS == 0 ? VECTOR_K : VECTOR_RANK) ? 4 : 1
let row_words = LENGTH / ROW_WIDTH;
let steps = (LENGTH + 3u) / 4u;
