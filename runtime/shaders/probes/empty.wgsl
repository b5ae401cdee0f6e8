// What a launch costs: a kernel of one workgroup that has next to nothing to do.
//
// Grid: 1.

//#buffer read_write y 1 // [1]
//#uniform value: f32
//#workgroup 1, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  y_put(wg.x + local.x, params.value);
}
