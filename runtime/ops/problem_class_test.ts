import assert from "node:assert/strict";
import {
  attentionClass,
  convClass,
  groupClass,
  linearClass,
  matmulClass,
  rowClass,
} from "./problem_class.ts";

Deno.test("linearClass() puts the bounds of rows and columns into the lower class", () => {
  const of = (rows: number, columns: number) => linearClass({ rows, columns, weight: "f32" });
  assert.equal(of(1, 1), "rows<=1 columns<=512 f32");
  assert.equal(of(4, 512), "rows<=4 columns<=512 f32");
  assert.equal(of(5, 513), "rows<=64 columns>512 f32");
  assert.equal(of(2048, 513), "rows<=2048 columns>512 f32");
  assert.equal(of(2049, 513), "rows>2048 columns>512 f32");
});

Deno.test("linearClass() tells weights by what it costs to decode them", () => {
  const of = (weight: Parameters<typeof linearClass>[0]["weight"]) =>
    linearClass({ rows: 1, columns: 1, weight }).split(" ").at(-1);
  assert.deepEqual([of("f32"), of("f16"), of("bf16")], ["f32", "16-bit", "16-bit"]);
  assert.deepEqual([of("q8_0"), of("f8_e4m3")], ["8-bit", "8-bit"]);
  assert.deepEqual([of("q4_0"), of("q4_k"), of("q6_k")], ["4-bit", "4-bit", "4-bit"]);
});

Deno.test("matmulClass() names the layout, and a batch only where there is one", () => {
  const sizes = { rows: 64, columns: 64, layout: "kn" } as const;
  assert.equal(matmulClass({ ...sizes, count: 1 }), "rows<=64 columns<=512 kn");
  assert.equal(matmulClass({ ...sizes, count: 2 }), "rows<=64 columns<=512 kn batched");
});

Deno.test("attentionClass(), convClass(), rowClass() and groupClass() name every size they depend on", () => {
  assert.equal(
    attentionClass({ queries: 65, keys: 128, headDim: 128 }),
    "queries<=1024 keys<=128 head>64",
  );
  assert.equal(convClass({ channels: 3, pixels: 20_000 }), "channels<=4 pixels>16384");
  assert.equal(rowClass({ rows: 256, columns: 4096 }), "rows<=256 columns>512");
  assert.equal(groupClass({ positions: 4097 }), "positions>4096");
});
