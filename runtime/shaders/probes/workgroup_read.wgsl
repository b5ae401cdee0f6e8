// What bounds tiled kernels: sums words of 4 elements out of workgroup memory, neighbours side by side.
//
// Grid: invocations / LANES, exactly. Workgroup memory: 8192 bytes.

//#param LANES: u32 // a power of two, at most 512

//#let WORDS = 512
//#let READS = 16 // words of one invocation in one turn of the loop
//#buffer read       x 4 // [512, 4]
//#buffer read_write y 4 // [invocations, 4]
//#uniform turns: u32
//#workgroup LANES, 1, 1

var<workgroup> tile: array<vec4<f32>, WORDS>;

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  for (var word = local.x; word < WORDS; word += LANES) {
    tile[word] = x_at(word);
  }
  workgroupBarrier();
  //#for S in 0..4
  var s_S = vec4<f32>(0.0);
  //#endfor
  var at = local.x;
  for (var turn = 0u; turn < params.turns; turn++) {
    //#for R in 0..READS
    //#let S = R % 4
    s_S += tile[(at + R * LANES) % WORDS];
    //#endfor
    at += 8u;
  }
  y_put(wg.x * LANES + local.x, (s_0 + s_1) + (s_2 + s_3));
}
