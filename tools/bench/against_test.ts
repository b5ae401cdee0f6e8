import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { ROOT } from "../root.ts";
import { benchAgainst } from "./against.ts";

Deno.test("benchAgainst() refuses what is no folder and no commit", async () => {
  await assert.rejects(benchAgainst("none", [], 1), /Cannot compare with none: it is no folder/);
});

Deno.test({
  name: "benchAgainst() times the ops and programs of both sides (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const { figures } = await benchAgainst(fileURLToPath(ROOT), ["softmax:64x64"], 3);
    const rows = ["softmax:64x64", "bundled step", "bundled decode"];
    assert.deepEqual(Object.keys(figures), rows.map((row) => `${row}, of its time before`));
    assert.ok(Object.values(figures).every(({ value }) => value > 0));
  },
});
