import type { Kernel } from "./assemble.ts";

/** Which elements of a head make a pair: neighbours, or element i and element i + D/2. */
export type RopeStyle = "interleaved" | "half";

/**
 * Rotates pairs: (a, b) becomes (a cos - b sin, b cos + a sin).
 *
 * x, y: [positions, heads, 2 * half] f32; cos, sin: [period, half], of which position p takes row p % period.
 * One invocation per pair (width 1) or per four neighbouring elements of each half or two neighbouring
 * pairs (width 4; needs half % 4 == 0 for `half`, half % 2 == 0 for `interleaved`).
 * Workgroup: 64 x 1 x 1, grid: invocations / 64.
 */
export function ropeKernel(style: RopeStyle, width: 1 | 4): Kernel {
  const tableWidth = style === "half" ? width : 1;
  return {
    name: `rope ${style} w${width}`,
    buffers: [
      { name: "x", access: "read", width },
      { name: "cos_table", access: "read", width: tableWidth },
      { name: "sin_table", access: "read", width: tableWidth },
      { name: "y", access: "read_write", width },
    ],
    params: { count: "u32", heads: "u32", per_head: "u32", period: "u32" },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let id = wg.x * 64u + local.x;
  if (id >= params.count) { return; }
  let part = id % params.per_head;
  let head = id / params.per_head;
  let row = (head / params.heads) % params.period;
${style === "half" ? HALF_BODY : width === 4 ? INTERLEAVED_FOURS : INTERLEAVED_PAIR}
}`,
  };
}

const HALF_BODY = `  let at = row * params.per_head + part;
  let c = cos_table_at(at);
  let s = sin_table_at(at);
  let first = head * 2u * params.per_head + part;
  let a = x_at(first);
  let b = x_at(first + params.per_head);
  y_put(first, a * c - b * s);
  y_put(first + params.per_head, b * c + a * s);`;

const INTERLEAVED_FOURS = `  let at = (row * params.per_head + part) * 2u;
  let c = vec2<f32>(cos_table_at(at), cos_table_at(at + 1u));
  let s = vec2<f32>(sin_table_at(at), sin_table_at(at + 1u));
  let v = x_at(id);
  y_put(id, vec4<f32>(v.x * c.x - v.y * s.x, v.y * c.x + v.x * s.x, v.z * c.y - v.w * s.y, v.w * c.y + v.z * s.y));`;

const INTERLEAVED_PAIR = `  let at = row * params.per_head + part;
  let c = cos_table_at(at);
  let s = sin_table_at(at);
  let a = x_at(2u * id);
  let b = x_at(2u * id + 1u);
  y_put(2u * id, a * c - b * s);
  y_put(2u * id + 1u, b * c + a * s);`;
