import { type Activation, activationWgsl } from "./activations.ts";
import type { Kernel } from "./assemble.ts";

/** How one input of an elementwise kernel is read. */
export interface ElementwiseInput {
  readonly name: string;
  /** `inner`: consecutive along the innermost dimension; `splat`: constant along it. */
  readonly along: "inner" | "splat";
}

/** What an elementwise kernel is specialised to. */
export interface ElementwiseSpec {
  readonly expression: string;
  readonly inputs: readonly ElementwiseInput[];
  readonly scalars: readonly string[];
  /** Number of dimensions after merging. */
  readonly rank: number;
  /** Elements per invocation; 4 needs an innermost size divisible by 4. */
  readonly width: 1 | 4;
}

/**
 * y[i] = expression(inputs[i]) with broadcasting.
 *
 * y: dense, `rank` dimensions; each input has a stride per dimension, 0 where it is broadcast.
 * Workgroup: 64 x 1 x 1, grid: elements / (64 * width).
 */
export function elementwiseKernel(spec: ElementwiseSpec): Kernel {
  const { inputs, scalars, rank, width, expression } = spec;
  const type = width === 4 ? "vec4<f32>" : "f32";
  const params: Record<string, "u32" | "f32"> = { count: "u32" };
  for (let axis = 0; axis < rank; axis++) params[`size${axis}`] = "u32";
  for (const { name } of inputs) {
    for (let axis = 0; axis < rank; axis++) params[`${name}_stride${axis}`] = "u32";
  }
  for (const name of scalars) params[name] = "f32";
  const coordinates: string[] = [];
  for (let axis = rank - 1; axis > 0; axis--) {
    coordinates.push(`  let c${axis} = rest${axis} % params.size${axis};`);
    coordinates.push(`  let rest${axis - 1} = rest${axis} / params.size${axis};`);
  }
  const loads = inputs.map(({ name, along }) => {
    const terms = Array.from(
      { length: rank },
      (_, axis) => `${axis === 0 ? "rest0" : `c${axis}`} * params.${name}_stride${axis}`,
    );
    const offset = terms.join(" + ");
    if (width === 1) return `  let ${name} = ${name}_at(${offset});`;
    return along === "inner"
      ? `  let ${name} = ${name}_at((${offset}) / 4u);`
      : `  let ${name} = vec4<f32>(${name}_at(${offset}));`;
  });
  const used = ACTIVATIONS.filter((name) => new RegExp(`\\bact_${name}\\(`).test(expression));
  return {
    name: `elementwise ${expression} r${rank} w${width} ${
      inputs.map(({ along }) => along[0]).join("")
    }`,
    buffers: [
      ...inputs.map(({ name, along }) => ({
        name,
        access: "read" as const,
        width: width === 4 && along === "inner" ? (4 as const) : (1 as const),
      })),
      { name: "result", access: "read_write", width },
    ],
    params,
    workgroupSize: [64, 1, 1],
    body: `${used.map((name) => activationWgsl(name, type)).join("\n")}
fn evaluate(${[...inputs.map(({ name }) => `${name}: ${type}`)].join(", ")}) -> ${type} {
${scalars.map((name) => `  let ${name} = ${type}(params.${name});`).join("\n")}
  return ${type}(${expression});
}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let rest${rank - 1} = i${width === 4 ? " * 4u" : ""};
${coordinates.join("\n")}
${loads.join("\n")}
  result_put(i, evaluate(${inputs.map(({ name }) => name).join(", ")}));
}`,
  };
}

const ACTIVATIONS: readonly Activation[] = [
  "relu",
  "silu",
  "gelu",
  "gelu_tanh",
  "quick_gelu",
  "tanh",
];
