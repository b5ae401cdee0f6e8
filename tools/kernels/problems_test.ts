import assert from "node:assert/strict";
import { BASELINE_TARGET } from "../../runtime/mod.ts";
import { modelProblems } from "./problems.ts";

Deno.test("modelProblems() has products, attention and convolutions of each model, each kernel once", async () => {
  const limits = {
    ...BASELINE_TARGET.limits,
    maxBindingBytes: 2 ** 31 - 256,
    maxBufferBytes: 2 ** 31 - 1,
    maxStorageBuffers: 1024,
  };
  const problems = await modelProblems({ ...BASELINE_TARGET, limits });
  const texts = new Set(problems.map(({ code }) => code.wgsl));
  assert.equal(texts.size, problems.length);
  assert.ok(problems.length > 40 && problems.length < 200, `${problems.length} problems`);
  const names = problems.flatMap(({ name, others }) => [name, ...others]);
  // Z-Image, Wan and the autoencoder of both FLUX.1 and Z-Image.
  assert.ok(names.some((name) => /^gemm a f\d+\[4160x3840\] b q8_0\[3840x3840\]/.test(name)));
  assert.ok(names.some((name) => /^attention .*q f\d+\[2x75600x40x128\]/.test(name)));
  assert.ok(names.some((name) => /^conv .*weight bf16\[512x3x3x512\]/.test(name)));
});
