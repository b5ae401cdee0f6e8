import assert from "node:assert/strict";
import { matrixTarget, matrixUnit } from "../../../tests/support/matrix_target.ts";
import { ATTENTION_VARIANTS } from "./variants.ts";

Deno.test("matrix128 takes no unit that is deeper than the keys which workgroup memory holds", () => {
  const variant = ATTENTION_VARIANTS.find(({ name }) => name === "matrix128")!;
  const problem = { lq: 1024, headDim: 128, logits: {}, mayRound: true } as
    & Parameters<typeof variant.supports>[0]
    & Parameters<typeof variant.plan>[0];
  const target = (depth: number, kilobytes: number) =>
    matrixTarget([matrixUnit(16, 8, depth)], { kilobytes });
  assert.equal(variant.supports(problem, target(32, 32)), false);
  assert.match(variant.plan(problem, target(16, 32)).kernel.name, /unit_k=16 .*keys=16/);
  // 32 keys, which the kernel's file has where nothing else is said.
  assert.doesNotMatch(variant.plan(problem, target(32, 64)).kernel.name, /keys=/);
});
