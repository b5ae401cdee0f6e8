// finish(row, column, sum): what a matrix product does with a sum, or the four from column on,
// before it stores them: y = residual + gate * activation(scale * sum + bias). Parts that are left
// out cost nothing. A gated linear unit hands it glu(sum, other sum), which it stores as it is.
//
// A low-rank branch t · upᵀ is added to the sums: every kernel walks along it, too, before it calls
// finish.

//#param Y_WIDTH: u32 // 4 needs n % 4 == 0
//#param SCALE: bool = false
//#param BIAS: bool = false
//#param ADDS_BIAS: bool = BIAS // false where the sums begin at it
//#param GATE: bool = false
//#param RESIDUAL: bool = false
//#param PARTS: bool = false // the columns are cut into equal parts, whose results lie one after the other
//#param GLU: bool = false // sums come in pairs, and a pair makes one element
//#param LOW_RANK: bool = false
//#param VECTOR_RANK: bool = true // rank is a multiple of 4

//#let T = Y_WIDTH == 4 ? "vec4<f32>" : "f32"
//#if BIAS
//#buffer read       bias     Y_WIDTH // [n]
//#endif
//#if GATE
//#buffer read       gate     Y_WIDTH // [m / gate_rows, n]
//#endif
//#if RESIDUAL
//#buffer read       residual Y_WIDTH // [m, n]
//#endif
//#if LOW_RANK
//#let RANK_WIDTH = VECTOR_RANK ? 4 : 1
//#buffer read       t        RANK_WIDTH // [m, rank]
//#buffer read       up       RANK_WIDTH // [n, rank], rows as b has
//#endif
//#buffer read_write y        Y_WIDTH // [m, n], or [n / part_columns, m, part_columns]
//#if SCALE
//#uniform scale: f32
//#endif
//#if GATE
//#uniform gate_rows: u32 // rows that share a row of gates
//#endif
//#if PARTS
//#uniform part_columns: u32
//#uniform part_size: u32 // elements of a part
//#endif
//#if LOW_RANK
//#uniform rank: u32
//#include "gemm/row.wgsl" NAME=t, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#include "gemm/row.wgsl" NAME=up, LENGTH=params.rank, VECTOR=VECTOR_RANK
//#endif
//#include "shared/activation.wgsl"

//#if GLU
fn glu(gate: T, value: T) -> T { return act_ACTIVATION(gate) * value; }
//#endif

fn finish(row: u32, column: u32, sum: T) {
  //#if PARTS
  let part = column / params.part_columns;
  let at = (part * params.part_size + row * params.part_columns + column % params.part_columns) / Y_WIDTH;
  //#else
  let at = (row * params.n + column) / Y_WIDTH;
  //#endif
  var v = sum;
  //#if SCALE
  v = v * params.scale;
  //#endif
  //#if ADDS_BIAS
  v = v + bias_at(column / Y_WIDTH);
  //#endif
  //#if !GLU
  v = act_ACTIVATION(v);
  //#endif
  //#if GATE
  v = v * gate_at(((row / params.gate_rows) * params.n + column) / Y_WIDTH);
  //#endif
  //#if RESIDUAL
  v = v + residual_at(at);
  //#endif
  y_put(at, v);
}
