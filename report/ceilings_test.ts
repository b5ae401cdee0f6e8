import assert from "node:assert/strict";
import { assembleKernel } from "../runtime/shaders/assemble.ts";
import {
  emptyKernel,
  matrixKernel,
  multiplyAddKernel,
  readKernel,
  workgroupReadKernel,
} from "../runtime/probes.ts";
import { lintWgsl } from "../tools/lint/wgsl.ts";
import { ceilingShare } from "./ceilings.ts";

Deno.test("ceilingShare() is by arithmetic or by memory, whichever takes longer", () => {
  const work = { flops: 8e6, bytes: 1e6, ms: 4, kernels: ["gemm/rows"] };
  assert.equal(ceilingShare(work, { flopsPerSecond: 4e9, bytesPerSecond: 10e9 }), 0.5);
  assert.equal(ceilingShare(work, { flopsPerSecond: 100e9, bytesPerSecond: 1e9 }), 0.25);
});

Deno.test("ceilingShare() of kernels on matrix units is by their rate", () => {
  const work = { flops: 8e6, bytes: 1, ms: 4, kernels: ["prepare", "gemm/matrix m=8"] };
  const rates = { flopsPerSecond: 4e9, bytesPerSecond: 10e9 };
  assert.equal(ceilingShare(work, rates), 0.5);
  assert.equal(ceilingShare(work, { ...rates, matrixFlopsPerSecond: 16e9 }), 0.125);
});

Deno.test("lintWgsl() finds nothing in the probes", () => {
  const binding = { dtype: "f32", pieces: 1, pieceBytes: 1024 } as const;
  const unit = { element: "f16", m: 8, n: 8, k: 8, lanes: 32, isForced: true } as const;
  for (
    const kernel of [
      ...(["f32", "f16", "i8"] as const).map((type) => multiplyAddKernel(8, type)),
      readKernel(8, "runs"),
      readKernel(64, "interleaved"),
      workgroupReadKernel(64),
      matrixKernel(unit),
      emptyKernel(),
    ]
  ) {
    const bindings = kernel.buffers.map(() => binding);
    assert.deepEqual(lintWgsl(assembleKernel(kernel, bindings, "naga")), [], kernel.name);
  }
});
