// reduce_NAME(own, at): what JOIN makes of the values of the LANES invocations of a row, in a fixed
// order.
//
// at counts the invocations of the workgroup, which must all call it; parts is an array in
// workgroup memory with an element for each of them.

//#param NAME: word
//#param JOIN: wgsl // of a and b
//#param LANES: u32 // a power of two
//#param TYPE: wgsl = "f32"

fn reduce_NAME(own: TYPE, at: u32) -> TYPE {
  let lane = at % LANES;
  parts[at] = own;
  workgroupBarrier();
  for (var half = LANES / 2u; half > 0u; half = half / 2u) {
    if (lane < half) {
      let a = parts[at];
      let b = parts[at + half];
      parts[at] = JOIN;
    }
    workgroupBarrier();
  }
  let all = parts[at - lane];
  workgroupBarrier();
  return all;
}
