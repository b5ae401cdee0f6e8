/** The rule that chooses kernels of products by shape where nothing was measured. */
import assert from "node:assert/strict";
import type { StorageFormat } from "../../dtype.ts";
import { Graph } from "../../graph/graph.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { BASELINE_TARGET, type Target } from "../../target.ts";
import { linear } from "../linear/mod.ts";
import { matrixTarget, matrixUnit } from "../../../tests/support/matrix_target.ts";

/** The variant and the grid of x [m, k] · wᵀ [k, n]. */
function ruleOf(
  target: Target,
  [m, n, k]: readonly [number, number, number],
  weight: StorageFormat = "bf16",
) {
  let variant = "";
  const onChoice = (choice: { readonly variant: string }) => {
    variant = choice.variant;
  };
  const graph = new Graph("test", { ...target, onChoice });
  linear(
    graph.use(new DeviceTensor("x", [m, k])),
    graph.use(new DeviceTensor("w", [n, k], weight)),
  );
  return { variant, kernel: graph.dispatches[0]!.kernel.name };
}

Deno.test("on GPUs large products have large tiles, short prompts split their sums", () => {
  const limits = { ...BASELINE_TARGET.limits, maxWorkgroupMemoryBytes: 32768 };
  const target = { ...BASELINE_TARGET, limits };
  const of = (...sizes: [number, number, number]) => ruleOf(target, sizes).variant;
  assert.equal(of(4160, 10240, 3840), "shared128");
  assert.equal(of(1024, 2560, 2560), "shared128");
  assert.equal(of(512, 1536, 1536), "shared64");
  assert.equal(of(256, 512, 512), "shared32");
  for (const rows of [5, 32]) assert.equal(of(rows, 9728, 2560), "sliced32");
  for (const rows of [33, 64]) assert.equal(of(rows, 9728, 2560), "sliced64x32");
  assert.equal(of(20, 9728, 128), "shared32");
  assert.equal(of(1, 2560, 2560), "rows");
});

Deno.test("on matrix units large products have tiles of 128 x 128, two of each factor where they fit", () => {
  const of = (sizes: [number, number, number], kilobytes: number, side: 8 | 16, lanes = 32) =>
    ruleOf(
      matrixTarget([matrixUnit(side, side, side)], {
        kilobytes,
        features: { subgroupMinSize: lanes, subgroupMaxSize: lanes },
      }),
      sizes,
    );
  const large: [number, number, number] = [4160, 10240, 3840];
  const twice = of(large, 48, 16);
  assert.equal(twice.variant, "matrix128x128");
  assert.match(twice.kernel, / whole_k .*tiles=2|tiles=2 .*whole_k/);
  assert.doesNotMatch(twice.kernel, /sum_columns|subgroups/);
  assert.match(of(large, 32, 16).kernel, /tiles=2 .*sum_columns=16/);
  assert.doesNotMatch(of(large, 24, 16).kernel, /tiles=2/);
  assert.equal(of(large, 24, 16).variant, "matrix128x128");
  const narrow = of(large, 48, 16, 16);
  assert.equal(narrow.variant, "matrix128x128");
  assert.match(narrow.kernel, / subgroups=8 /);
  assert.equal(of([1024, 1536, 1536], 48, 16).variant, "matrix128");
  assert.equal(of([4160, 10240, 3844], 48, 16).variant, "matrix128");
});

Deno.test("on GPUs that share little memory or few invocations, tiles are smaller", () => {
  const of = (limits: Partial<Target["limits"]>) =>
    ruleOf({ ...BASELINE_TARGET, limits: { ...BASELINE_TARGET.limits, ...limits } }, [
      4096,
      4096,
      4096,
    ]).variant;
  assert.equal(of({ maxWorkgroupInvocations: 128 }), "shared64");
  assert.equal(of({ maxWorkgroupMemoryBytes: 12 * 1024 }), "shared64");
});

const SOFTWARE: Target = {
  ...BASELINE_TARGET,
  schedule: "cpu",
  features: {
    ...BASELINE_TARGET.features,
    subgroups: true,
    subgroupMinSize: 8,
    subgroupMaxSize: 8,
  },
};

Deno.test("on software adapters short prompts have one tile, as high as they are, and q6_k comes by runs", () => {
  const tile = (m: number, weight?: StorageFormat) =>
    /rows=\d+ columns=\d+/.exec(ruleOf(SOFTWARE, [m, 2560, 2560], weight).kernel)![0];
  assert.equal(tile(5), "rows=8 columns=8");
  assert.equal(tile(20), "rows=20 columns=8");
  assert.equal(tile(256), "rows=64 columns=4");
  assert.equal(tile(20, "q4_k"), "rows=20 columns=8");
  assert.equal(tile(20, "q8_0"), "rows=20 columns=4");
  assert.equal(tile(256, "q4_k"), "rows=64 columns=4");
  assert.equal(tile(256, "q6_k"), "rows=32 columns=8");
  assert.equal(tile(256, "f8_e4m3"), "rows=64 columns=4");
});

Deno.test("linear() has one kernel for products with and without bias, gate, residual and parts on software adapters", () => {
  const kernelsOf = (target: Target) => {
    const graph = new Graph("test", target);
    const tensor = (name: string, shape: number[]) => graph.use(new DeviceTensor(name, shape));
    const [x, w] = [tensor("x", [20, 64]), tensor("w", [64, 64])];
    const [bias, gate, residual] = [tensor("b", [64]), tensor("g", [64]), tensor("r", [20, 64])];
    for (
      const parts of [{}, { bias }, { bias, residual }, { gate, residual }, { bias, parts: 2 }]
    ) {
      linear(x, w, parts);
    }
    return new Set(graph.dispatches.map(({ kernel }) => kernel)).size;
  };
  assert.equal(kernelsOf(SOFTWARE), 1);
  assert.equal(kernelsOf(BASELINE_TARGET), 5);
  const { limits } = SOFTWARE;
  // All of them would be six bindings.
  assert.equal(kernelsOf({ ...SOFTWARE, limits: { ...limits, maxStorageBuffers: 5 } }), 5);
});

Deno.test("products of much work finish more rows at once on software adapters, and ask for nothing", () => {
  const kernel = (m: number) => ruleOf(SOFTWARE, [m, 1024, 1024]).kernel;
  assert.match(kernel(64), / asks/);
  assert.doesNotMatch(kernel(64), /finished/);
  assert.match(kernel(65), / finished=16/);
  assert.doesNotMatch(kernel(65), /asks/);
});

Deno.test("small products share two heights of tiles on software adapters", () => {
  const rows = (...sizes: [number, number, number]) =>
    /rows=\d+/.exec(ruleOf(SOFTWARE, sizes).kernel)![0];
  assert.equal(rows(36, 160, 160), "rows=24");
  assert.equal(rows(2304, 32, 64), "rows=32");
  assert.equal(rows(36, 1600, 160), "rows=48");
});
