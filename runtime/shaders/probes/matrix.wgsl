// What bounds products on matrix units: a subgroup's multiplications on factors that stay in registers.
//
// Workgroup: four subgroups; grid: any. x: [4096] f32; y: [grid, invocations of a workgroup].

//#param CHAINS: u32 // sums of a subgroup that do not wait for each other

//#buffer read       x 1
//#buffer read_write y 1
//#uniform turns: u32
//#include "matrix/unit.wgsl"

//#let FACTOR = 4096 // elements in workgroup memory, more than a factor has
//#let SUM = UNIT_M * UNIT_N

var<workgroup> factors: array<f16, FACTOR>;
var<workgroup> sums: array<f32, SUBGROUPS * SUM>;

fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  for (var i = local.x; i < FACTOR; i += THREADS) {
    factors[i] = f16(x_at(i));
  }
  workgroupBarrier();
  let left = subgroupMatrixLoad<LEFT, row_major>(&factors, 0u, UNIT_K);
  let right = subgroupMatrixLoad<RIGHT, row_major>(&factors, 1024u, UNIT_N);
  //#for C in 0..CHAINS
  var s_C = RESULT();
  //#endfor
  for (var turn = 0u; turn < params.turns; turn++) {
    //#for C in 0..CHAINS
    s_C = subgroupMatrixMultiplyAccumulate(left, right, s_C);
    //#endfor
  }
  var total = 0.0;
  //#for C in 0..CHAINS
  subgroupMatrixStore<row_major>(&sums, subgroup * SUM, s_C, UNIT_N);
  workgroupBarrier();
  for (var i = local.x; i < SUBGROUPS * SUM; i += THREADS) {
    total += sums[i];
  }
  workgroupBarrier();
  //#endfor
  y_put(wg.x * THREADS + local.x, total);
}
