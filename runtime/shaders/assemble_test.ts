import assert from "node:assert/strict";
import { assembleKernel } from "./assemble.ts";
import type { Kernel } from "./kernel.ts";

function kernel(body: string): Kernel {
  return { name: "test", buffers: [], params: {}, workgroupSize: [8, 1, 1], body };
}

/** The directives in front of a kernel with this body. */
function enabled(body: string, dialect: "naga" | "spec"): string[] {
  const wgsl = assembleKernel(kernel(body), [], dialect);
  return [...wgsl.matchAll(/^enable (\w+);$/gm)].map(([, name]) => name!);
}

Deno.test("assembleKernel() enables what the body uses where the specification asks for it", () => {
  assert.deepEqual(enabled("let x = 1;", "spec"), []);
  assert.deepEqual(enabled("let y = subgroupBroadcast(x, 0u);", "spec"), ["subgroups"]);
  assert.deepEqual(enabled("var a: subgroup_matrix_left<f16, 8, 8>;", "spec"), [
    "subgroups",
    "chromium_experimental_subgroup_matrix",
  ]);
});

Deno.test("assembleKernel() leaves out the directives that naga refuses", () => {
  assert.deepEqual(enabled("let y = subgroupBroadcast(x, 0u);", "naga"), []);
});

Deno.test("assembleKernel() hands on the subgroup's number, and fixes the subgroups' size where a kernel asks", () => {
  const wgsl = assembleKernel(
    {
      ...kernel("var a: subgroup_matrix_left<f16, 8, 8>;"),
      usesSubgroupId: true,
      subgroupSize: 32,
    },
    [],
    "spec",
  );
  assert.match(wgsl, /^enable subgroup_size_control;$/m);
  assert.match(wgsl, /@workgroup_size\(8, 1, 1\) @subgroup_size\(32\)/);
  assert.match(
    wgsl,
    /@builtin\(subgroup_id\) subgroup: u32\) \{\n {2}kernel\(.*, local, subgroup\);/,
  );
  const plain = assembleKernel(kernel("let x = 1;"), [], "spec");
  assert.doesNotMatch(plain, /subgroup/);
});
