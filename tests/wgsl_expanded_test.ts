/**
 * Checks the expanded WGSL of every kernel that the ops' case tables lead to, on matrix units too: by our lint, and by Tint
 * where Dawn is on this machine. Naga compiles all that it can in `runtime/ops/conformance_test.ts`.
 */
import assert from "node:assert/strict";
import { kernelSources } from "../runtime/kernel_sources.ts";
import { OP_SUITES } from "../runtime/ops/registry.ts";
import type { WgslDialect } from "../runtime/shaders/assemble.ts";
import { BASELINE_TARGET, type SubgroupMatrix, type Target } from "../runtime/target.ts";
import { lintWgsl } from "../tools/lint/wgsl.ts";
import { matrixTarget, matrixUnit } from "./matrix_target.ts";
import { openTint, whyNoTint } from "./tint.ts";

/** A GPU, a software adapter with subgroups, a GPU on which tensors take several bindings, and four with matrix units. */
const TARGETS: readonly Target[] = [
  BASELINE_TARGET,
  {
    ...BASELINE_TARGET,
    schedule: "cpu",
    features: {
      ...BASELINE_TARGET.features,
      subgroups: true,
      subgroupMinSize: 8,
      subgroupMaxSize: 8,
    },
  },
  {
    ...BASELINE_TARGET,
    limits: { ...BASELINE_TARGET.limits, maxBindingBytes: 1024, maxStorageBuffers: 16 },
  },
  withMatrices(matrixUnit(16, 16, 16), 32, 32),
  withMatrices(matrixUnit(8, 16, 16), 8, 64),
  withMatrices(matrixUnit(16, 8, 32), 32, 32),
  withMatrices(matrixUnit(8, 8, 8, "f32"), 32, 32),
];

function withMatrices(
  unit: SubgroupMatrix,
  subgroupMinSize: number,
  subgroupMaxSize: number,
): Target {
  const features = { subgroupMinSize, subgroupMaxSize, subgroupSizeControl: true };
  return matrixTarget([unit], { features });
}

/** What the kernels on all targets are expanded to. */
interface Expanded {
  /** Each WGSL once, with where it comes from. */
  readonly sources: Map<string, string>;
  /** Every op with each of its variants that led to one. */
  readonly variants: Set<string>;
}

const expanded = new Map<WgslDialect, Expanded>();

function expandAll(dialect: WgslDialect): Expanded {
  const known = expanded.get(dialect);
  if (known) return known;
  const sources = new Map<string, string>();
  const variants = new Set<string>();
  for (const target of TARGETS) {
    for (const { op, variant, kernel, wgsl } of kernelSources({ ...target, dialect })) {
      sources.set(wgsl, `${op} ${variant}: ${kernel}`);
      variants.add(`${op} ${variant}`);
    }
  }
  expanded.set(dialect, { sources, variants });
  return { sources, variants };
}

Deno.test("kernelSources() leads to every variant of every op", () => {
  const wanted = new Set(
    OP_SUITES.flatMap(({ op, variants }) => variants.map((v) => `${op} ${v}`)),
  );
  assert.deepEqual([...wanted.difference(expandAll("naga").variants)], []);
});

Deno.test("lintWgsl() finds nothing in the expanded kernels", () => {
  for (const [wgsl, name] of expandAll("naga").sources) {
    const problems = lintWgsl(wgsl).map(({ line, rule, message }) => `${line} ${rule}: ${message}`);
    assert.deepEqual(problems, [], name);
  }
});

const why = whyNoTint();

Deno.test({
  name: `Tint accepts the expanded kernels${why ? `: ${why}` : ""}`,
  ignore: why !== undefined,
  async fn() {
    const device = await openTint();
    try {
      const divergent = kernelWith("if (local.x > 0u) { workgroupBarrier(); }");
      assert.match((await messages(device, divergent))[0]!, /uniform control flow/);
      for (const [code, name] of expandAll("spec").sources) {
        assert.deepEqual(await messages(device, code), [], name);
      }
    } finally {
      device.destroy();
    }
  },
});

function kernelWith(statement: string): string {
  return `@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) local: vec3<u32>) { ${statement} }`;
}

/** What a front end has to say of a shader. */
async function messages(device: GPUDevice, code: string): Promise<string[]> {
  device.pushErrorScope("validation");
  const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
  await device.popErrorScope();
  return messages.map(({ lineNum, message }) => `line ${lineNum}: ${message}`);
}
