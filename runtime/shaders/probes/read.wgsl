// What bounds every op: sums words of 4 elements. Reads x, all of it or its beginning again and again, and writes next
// to nothing.
//
// Grid: invocations / LANES, exactly.

//#param LANES: u32
//#param ORDER: runs | interleaved // every invocation reads a run of its own, or neighbours read side by side

//#let READS = 16 // words of one invocation in one turn of the loop
//#buffer read       x 4 // [words, 4], words a power of two
//#buffer read_write y 4 // [invocations, 4]
//#uniform strip: u32 // words of one invocation, a multiple of READS
//#uniform mask: u32 // one less than the words that are read, a power of two
//#workgroup LANES, 1, 1

fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * LANES + local.x;
  //#for S in 0..4
  var s_S = vec4<f32>(0.0);
  //#endfor
  //#if ORDER == runs
  let first = i * params.strip;
  //#let STEP = 1
  //#else
  let first = wg.x * LANES * params.strip + local.x;
  //#let STEP = LANES
  //#endif
  for (var k = 0u; k < params.strip; k += READS) {
    //#for R in 0..READS
    //#let S = R % 4
    s_S += x_at((first + (k + R) * STEP) & params.mask);
    //#endfor
  }
  y_put(i, (s_0 + s_1) + (s_2 + s_3));
}
