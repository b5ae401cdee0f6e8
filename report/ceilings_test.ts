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
import { ceilingShare, highest } from "./ceilings.ts";

Deno.test("ceilingShare() is by arithmetic or by memory, whichever takes longer", () => {
  const work = { flops: 8e6, bytes: 1e6, milliseconds: 4 };
  assert.equal(ceilingShare(work, { flopsPerSecond: 4e9, bytesPerSecond: 10e9 }), 0.5);
  assert.equal(ceilingShare(work, { flopsPerSecond: 100e9, bytesPerSecond: 1e9 }), 0.25);
});

Deno.test("highest() takes the higher one of each rate", () => {
  const both = highest({ flopsPerSecond: 1e9, bytesPerSecond: 4e9 }, {
    flopsPerSecond: 2e9,
    bytesPerSecond: 3e9,
  });
  assert.deepEqual(both, { flopsPerSecond: 2e9, bytesPerSecond: 4e9 });
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
