/**
 * Checks the expanded WGSL of every kernel that the ops' case tables lead to, on matrix units too: by our lint, and by Tint
 * where Dawn is on this machine. Naga compiles all that it can in `runtime/ops/conformance_test.ts`.
 */
import assert from "node:assert/strict";
import { kernelSources } from "../../runtime/kernel_sources.ts";
import { OP_SUITES } from "../../runtime/ops/registry.ts";
import { BASELINE_TARGET, type SubgroupMatrix, type Target } from "../../runtime/target.ts";
import { lintWgsl } from "../../tools/lint/wgsl.ts";
import { matrixTarget, matrixUnit } from "../support/matrix_target.ts";
import { openTint, whyNoTint } from "../support/tint.ts";

/** A GPU, one without f16, a software adapter with subgroups, a GPU on which tensors take several bindings, and five with matrix units. */
const TARGETS: readonly Target[] = [
  BASELINE_TARGET,
  { ...BASELINE_TARGET, dialect: "naga-f32" },
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
  withMatrices(matrixUnit(8, 16, 16), 16, 32),
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

/** Every op with each of its variants that led to a kernel. */
const variants = new Set<string>();
/**
 * What the kernels on all targets are expanded to, as the specification has it, with where it comes from: one of every kernel
 * and parameters, and of each declaration in it; all of them when slow.
 */
const chosen = new Map<string, string>();

const seen = new Set<string>();
for (const target of TARGETS) {
  const dialect = target.dialect === "naga" ? "spec" : target.dialect;
  for (const { op, variant, label, wgsl } of kernelSources({ ...target, dialect })) {
    const name = `${op} ${variant}: ${label}`;
    variants.add(`${op} ${variant}`);
    const [file] = label.split(" ");
    const traits = [label, ...declarationsOf(wgsl).map((line) => `${file} ${line}`)];
    if (Deno.env.has("DENOISE_SLOW") || traits.some((trait) => !seen.has(trait))) {
      chosen.set(wgsl, name);
    }
    for (const trait of traits) seen.add(trait);
  }
}

/** What a kernel binds and keeps for a workgroup, without numbers. */
function declarationsOf(wgsl: string): string[] {
  return wgsl.split("\n").filter((line) => /\bvar</.test(line))
    .map((line) => line.replace(/\b\d+u?\b/g, "0"));
}

Deno.test("kernelSources() leads to every variant of every op", () => {
  const wanted = new Set(
    OP_SUITES.flatMap(({ op, variants }) => variants.map((v) => `${op} ${v}`)),
  );
  const missing = [...wanted.difference(variants)];
  assert.deepEqual(
    missing,
    [],
    `no case leads to ${
      missing.join(", ")
    }: the case table and chooseVariant() must have the same names`,
  );
});

Deno.test("lintWgsl() finds nothing in the expanded kernels", () => {
  for (const [wgsl, name] of chosen) {
    // The line that the runtime adds for front ends that need it.
    const own = wgsl.replace("enable subgroups;\n", "");
    const problems = lintWgsl(own).map(({ line, rule, message }) => `${line} ${rule}: ${message}`);
    assert.deepEqual(problems, [], name);
  }
});

const why = Deno.env.has("DENOISE_SLOW") ? whyNoTint() : "with DENOISE_SLOW";

Deno.test({
  name: `Tint accepts the expanded kernels${why ? `: ${why}` : ""}`,
  ignore: why !== undefined,
  async fn() {
    const device = await openTint();
    try {
      const divergent = kernelWith("if (local.x > 0u) { workgroupBarrier(); }");
      assert.match((await messages(device, divergent))[0]!, /uniform control flow/);
      for (const [code, name] of chosen) {
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
