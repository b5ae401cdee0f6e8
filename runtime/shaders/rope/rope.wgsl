// Rotates pairs: (a, b) becomes (a cos - b sin, b cos + a sin).
//
// One invocation per pair (width 1), or per four neighbouring elements of each half or two
// neighbouring pairs (width 4). Grid: invocations / 64.

//#param STYLE: half | interleaved // pairs are elements i and i + D / 2, or neighbours
//#param WIDTH: u32 // 4 needs D / 2 % 4 == 0 (half), or % 2 == 0 (interleaved)

//#let TABLE_WIDTH = STYLE == half ? WIDTH : 1
//#buffer read       x         WIDTH       // [positions, heads, D]
//#buffer read       cos_table TABLE_WIDTH // [period, D / 2]; position p takes row p % period
//#buffer read       sin_table TABLE_WIDTH
//#buffer read_write y         WIDTH
//#uniform count: u32 // invocations that do work
//#uniform heads: u32
//#uniform per_head: u32 // invocations
//#uniform period: u32
//#workgroup 64, 1, 1

//#if STYLE == interleaved && WIDTH == 4
//#include "rope/turn_fours.wgsl"
//#endif

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let id = wg.x * 64u + local.x;
  if (id >= params.count) { return; }
  let part = id % params.per_head;
  let head = id / params.per_head;
  let row = (head / params.heads) % params.period;
  //#if STYLE == half
  let at = row * params.per_head + part;
  let c = cos_table_at(at);
  let s = sin_table_at(at);
  let first = head * 2u * params.per_head + part;
  let a = x_at(first);
  let b = x_at(first + params.per_head);
  y_put(first, a * c - b * s);
  y_put(first + params.per_head, b * c + a * s);
  //#elif WIDTH == 4
  y_put(id, turned(x_at(id), (row * params.per_head + part) * 2u));
  //#else
  let at = row * params.per_head + part;
  let c = cos_table_at(at);
  let s = sin_table_at(at);
  let a = x_at(2u * id);
  let b = x_at(2u * id + 1u);
  y_put(2u * id, a * c - b * s);
  y_put(2u * id + 1u, b * c + a * s);
  //#endif
}
