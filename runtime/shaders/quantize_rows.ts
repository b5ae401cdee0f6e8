import type { Kernel } from "./assemble.ts";

const THREADS = 64;

/** `vec4<u32>`s in front of the elements of a row that is rounded to int8: its scale, an f32, and three unused words. */
export const ROW_HEADER = 1;

/**
 * Rounds each row to int8 with one scale, that of its largest magnitude: y = [scale, 0, 0, 0, elements by fours].
 *
 * x: [rows, k] with k a multiple of 16, y: u32 [rows, 4 + k / 4]. Workgroup: 64 x 1 x 1, grid: rows. A row with a NaN
 * or an infinite element gets that as its scale, so that it shows in every product.
 */
export const QUANTIZE_ROWS: Kernel = {
  name: "quantize rows",
  buffers: [
    { name: "x", access: "read", width: 4 },
    { name: "y", access: "read_write", width: 4 },
  ],
  params: { k: "u32" },
  workgroupSize: [THREADS, 1, 1],
  body: `var<workgroup> largest: array<u32, ${THREADS}>;
fn packed(v: vec4<f32>) -> u32 { return pack4xI8Clamp(vec4<i32>(round(v))); }
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let x_start = wg.x * (params.k / 4u);
  let y_start = wg.x * (params.k / 16u + ${ROW_HEADER}u);
  // Magnitudes are ordered as their bits are, with NaN above all.
  var bits = vec4<u32>();
  for (var i = local.x; i < params.k / 4u; i = i + ${THREADS}u) {
    bits = max(bits, bitcast<vec4<u32>>(x_at(x_start + i)) & vec4<u32>(0x7fffffffu));
  }
  largest[local.x] = max(max(bits.x, bits.y), max(bits.z, bits.w));
  workgroupBarrier();
  for (var width = ${THREADS / 2}u; width > 0u; width = width / 2u) {
    if (local.x < width) { largest[local.x] = max(largest[local.x], largest[local.x + width]); }
    workgroupBarrier();
  }
  let scale = bitcast<f32>(largest[0]) / 127.0;
  let factor = select(0.0, 1.0 / scale, scale > 1e-35);
  if (local.x == 0u) { y_put(y_start, vec4<u32>(bitcast<u32>(scale), 0u, 0u, 0u)); }
  for (var i = local.x; i < params.k / 16u; i = i + ${THREADS}u) {
    let at = x_start + 4u * i;
    y_put(
      y_start + ${ROW_HEADER}u + i,
      vec4<u32>(
        packed(factor * x_at(at)),
        packed(factor * x_at(at + 1u)),
        packed(factor * x_at(at + 2u)),
        packed(factor * x_at(at + 3u)),
      ),
    );
  }
}`,
};
