import assert from "node:assert/strict";
import { findLoops } from "./assembly.ts";

/** Two loops, one inside of the other, as RADV writes them. */
const NEST = `BB0:
\ts_mov_b32 s0, 0                    ; be800080
BB1:
\tbuffer_load_b128 v[0:3], v9, s[0:3], 0 offen ; e05c0000
\tv_cvt_f32_f16_e32 v4, v0           ; 7e081700
\tds_store_b128 v8, v[0:3]           ; db7c0000
\ts_barrier                          ; bfbd0000
BB2:
\tds_load_b128 v[0:3], v8            ; dbfc0000
\ts_waitcnt lgkmcnt(0)               ; bf89fc07
\tv_fmac_f32_e32 v10, v0, v1         ; 56141500
\tv_fmac_f32_e32 v11, v2, v3         ; 56161702
\tv_add_nc_u32_e32 v8, 16, v8        ; 4a101090
\ts_cbranch_scc1 BB2                 ; bfa2fff8
BB3:
\ts_cbranch_scc0 BB5                 ; bfa10001
BB4:
\ts_branch BB1                       ; bfa0fff0
BB5:
\ts_endpgm                           ; bfb00000
`;

Deno.test("findLoops() counts what loops are made of, an outer one without its inner one", () => {
  const [outer, inner] = findLoops(NEST, "navi31", 64);
  assert.deepEqual([outer!.label, outer!.isInner, inner!.label, inner!.isInner], [
    "BB1",
    false,
    "BB2",
    true,
  ]);
  const { load, alu, ldsWrite, barrier, branch } = outer!.counts;
  assert.deepEqual({ load, alu, ldsWrite, barrier, branch }, {
    load: 1,
    alu: 1,
    ldsWrite: 1,
    barrier: 1,
    branch: 2,
  });
  const { fma, alu: others, ldsRead, wait } = inner!.counts;
  assert.deepEqual([fma, others, ldsRead, wait, outer!.products, inner!.products], [
    ...[2, 1, 1, 1],
    ...[0, 2],
  ]);
});

Deno.test("findLoops() bounds a loop by the clocks of the vector ALU or of workgroup memory", () => {
  const bounds = (family: string, wave = 64) => {
    const { clocks, bound } = findLoops(NEST, family, wave)[1]!;
    return [clocks.alu, clocks.lds, Number(bound.toFixed(3))];
  };
  // 16 bytes for 64 invocations, at 128 bytes a clock for two SIMDs, and for four of GCN.
  assert.deepEqual(bounds("navi31"), [4, 16, 0.125]);
  assert.deepEqual(bounds("gfx1200"), bounds("navi31"));
  assert.deepEqual(bounds("navi21"), [6, 16, 0.25]);
  assert.deepEqual(bounds("vega10"), [12, 32, 0.25]);
  assert.deepEqual(bounds("navi21", 32), [3, 8, 0.25]);
});

/** A loop of these instructions. */
function loopOf(...lines: string[]) {
  const body = lines.map((line) => `\t${line}\n`).join("");
  return findLoops(`BB1:\n${body}\ts_cbranch_scc1 BB1\n`, "navi31", 64)[0]!;
}

Deno.test("findLoops() tells products from conversions, and counts those of wide instructions", () => {
  assert.equal(loopOf("v_fma_mix_f32 v1, v2, v3, v1 op_sel_hi:[1,1,0]").products, 1);
  assert.equal(loopOf("v_fma_mix_f32 v1, v2, 1.0, neg(0) op_sel_hi:[1,0,0]").products, 0);
  assert.equal(loopOf("v_dot4_i32_iu8 v1, v2, v3, v1").products, 4);
  assert.equal(loopOf("v_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6").products, 2);
  assert.equal(loopOf("v_dual_mov_b32 v1, 0 :: v_dual_fmac_f32 v4, v5, v6").products, 1);
  assert.equal(loopOf("v_mad_u32_u24 v1, v2, v3, v4").products, 0);
  assert.equal(loopOf("v_fmac_f32_e32 v1, v2, v3", "(then repeated 2 times)").products, 3);
});

Deno.test("findLoops() gives transcendental functions four slots", () => {
  assert.equal(loopOf("v_exp_f32_e32 v1, v2").clocks.alu, 8);
});

Deno.test("findLoops() finds none where nothing branches back", () => {
  assert.deepEqual(findLoops("BB0:\n\ts_cbranch_scc1 BB1\nBB1:\n\ts_endpgm\n", "navi31", 64), []);
});
