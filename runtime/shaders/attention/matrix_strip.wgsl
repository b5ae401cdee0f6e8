// In attention/matrix.wgsl: stores strip S of the sums in the place of the scores. FROM … TO are
// its matrices.

//#param S: u32

//#let FROM = S * KEYS / UNIT_N
//#let TO = (S + 1) * KEYS < DIM ? (S + 1) * KEYS / UNIT_N : COLUMN_UNITS
//#for I in 0..ROW_UNITS, J in FROM..TO
subgroupMatrixStore<row_major>(&scores, score_row_I + (J - FROM) * UNIT_N / 4u, o_I_J, SCORE_STEP);
//#endfor
