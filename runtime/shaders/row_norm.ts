import { type Activation, activationWgsl } from "./activations.ts";
import type { BufferSlot, Kernel } from "./assemble.ts";

/** What a row normalisation kernel is specialised to. */
export interface RowNormSpec {
  /** `layer`: by mean and variance; `rms`: by the root of the mean square; `l2`: by the Euclidean length. */
  readonly kind: "layer" | "rms" | "l2";
  /** Elements per access; 4 needs rows whose length divides by 4. */
  readonly width: 1 | 4;
  /** Invocations that share a row: 1, or a power of two whose partial sums meet in workgroup memory. */
  readonly lanes: number;
  /** Rows per workgroup. */
  readonly rows: number;
  /** `parts`: rows belong to equal parts, one after the other, each with a weight of its own. */
  readonly weight: "none" | "shared" | "parts";
  readonly hasBias: boolean;
  readonly hasScale: boolean;
  readonly hasShift: boolean;
  readonly activation: Activation;
  /** Rotates neighbouring pairs, last of all; needs width 4. */
  readonly isRotary: boolean;
}

/**
 * y[r] = act((n(x[r]) * weight + bias) * (1 + scale[m(r)]) + shift[m(r)]), n by `kind`.
 *
 * x, y: [row_count, words * width]; weight: [words * width] or, by parts, [row_count / part_rows, words * width];
 * bias: [words * width]; cos, sin: [positions, 2 * head_words], of which row r takes `r % positions`; scale and shift
 * have rows of their own, of which row r takes `(r / div) % mod`. Mean and variance are of `x - pivot`, the row's
 * first element: two passes, exact for rows far from zero. Workgroup: lanes * rows x 1 x 1 (software adapters make
 * vectors of invocations along x only), grid: row_count / rows.
 */
export function rowNormKernel(spec: RowNormSpec): Kernel {
  const { kind, width, lanes, rows, activation, weight, isRotary } = spec;
  const type = width === 4 ? "vec4<f32>" : "f32";
  // A constant where it can be one: then drivers see that all rows read the same words of the weight.
  const start = lanes > 1 ? `local.x % ${lanes}u` : "0u";
  const modulations = [...(spec.hasScale ? ["scale"] : []), ...(spec.hasShift ? ["shift"] : [])];
  const vectors = [...(weight !== "none" ? ["weight"] : []), ...(spec.hasBias ? ["bias"] : [])];
  const tables = isRotary ? ["cos_table", "sin_table"] : [];
  const read = (name: string): BufferSlot => ({ name, access: "read", width });
  const params: Record<string, "u32" | "f32"> = { row_count: "u32", words: "u32", eps: "f32" };
  for (const name of modulations) {
    params[`${name}_div`] = "u32";
    params[`${name}_mod`] = "u32";
  }
  if (weight === "parts") params["part_rows"] = "u32";
  if (isRotary) Object.assign(params, { positions: "u32", head_words: "u32" });
  const element = kind === "layer" ? "(x_at(base + i) - pivot)" : "x_at(base + i)";
  const bases = modulations.map((name) =>
    `  let ${name}_base = ((row / params.${name}_div) % params.${name}_mod) * params.words;`
  );
  if (weight === "parts") {
    bases.push("  let weight_base = (row / params.part_rows) * params.words;");
  }
  if (isRotary) bases.push("  let angles = (row % params.positions) * params.head_words;");
  const write = [
    `var v = ${kind === "layer" ? `(${element} - offset)` : element} * factor;`,
    weight !== "none" && `v = v * weight_at(${weight === "parts" ? "weight_base + i" : "i"});`,
    spec.hasBias && "v = v + bias_at(i);",
    spec.hasScale && "v = v * (1.0 + scale_at(scale_base + i));",
    spec.hasShift && "v = v + shift_at(shift_base + i);",
    activation !== "none" && `v = act_${activation}(v);`,
    isRotary && ROTATION,
    "y_put(base + i, v);",
  ].filter((line) => line !== false).map((line) => `    ${line}`).join("\n");
  return {
    name: `row_norm ${kind} w${width} ${lanes}x${rows} ${
      [...vectors, weight === "parts" && weight, ...modulations, activation, isRotary && "rotary"]
        .filter((part) => part).join(" ")
    }`,
    buffers: [
      read("x"),
      ...[...vectors, ...modulations].map(read),
      ...tables.map((name): BufferSlot => ({ name, access: "read", width: 1 })),
      { name: "y", access: "read_write", width },
    ],
    params,
    workgroupSize: [lanes * rows, 1, 1],
    body: `${activation === "none" ? "" : activationWgsl(activation, type)}
${lanes > 1 ? reductionWgsl(lanes, rows) : ""}
fn total(v: ${type}) -> f32 { return ${width === 4 ? "(v.x + v.y) + (v.z + v.w)" : "v"}; }
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let unclamped = wg.x * ${rows}u + local.x${lanes > 1 ? ` / ${lanes}u` : ""};
  let row = min(unclamped, params.row_count - 1u);
  let base = row * params.words;
  let size = f32(params.words * ${width}u);
${kind === "layer" ? `  let pivot = ${type}(x_at(base)${width === 4 ? ".x" : ""});` : ""}
${
      kind === "layer"
        ? `${sumWgsl("moment", type, lanes, `${element}`)}
  let offset = ${type}(moment / size);
${sumWgsl("spread", type, lanes, `(${element} - offset)`, true)}
  let factor = inverseSqrt(spread / size + params.eps);`
        : `${sumWgsl("square", type, lanes, element, true)}
${
          kind === "rms"
            ? "  let factor = inverseSqrt(square / size + params.eps);"
            : "  let factor = sqrt(size) / max(sqrt(square), params.eps);"
        }`
    }
  if (unclamped >= params.row_count) { return; }
${bases.join("\n")}
  for (var i = ${start}; i < params.words; i += ${lanes}u) {
${write}
  }
}`,
  };
}

/** Turns the two pairs of a word. */
const ROTATION = `let angle = (angles + i % params.head_words) * 2u;
    let c = vec2<f32>(cos_table_at(angle), cos_table_at(angle + 1u));
    let s = vec2<f32>(sin_table_at(angle), sin_table_at(angle + 1u));
    v = vec4<f32>(v.x * c.x - v.y * s.x, v.y * c.x + v.x * s.x, v.z * c.y - v.w * s.y, v.w * c.y + v.z * s.y);`;

/** Declares `name`: the sum of `element` (a function of `i`), or of its square, over the row. */
function sumWgsl(
  name: string,
  type: string,
  lanes: number,
  element: string,
  squared = false,
): string {
  const add = (slot: number, place: string) =>
    `    let v${slot} = ${element.replaceAll("+ i)", `+ ${place})`)};
    ${name}${slot} += ${squared ? `v${slot} * v${slot}` : `v${slot}`};`;
  return `  var ${name}0 = ${type}(0.0);
  var ${name}1 = ${type}(0.0);
  var ${name}2 = ${type}(0.0);
  var ${name}3 = ${type}(0.0);
  var ${name}_i = ${lanes > 1 ? `local.x % ${lanes}u` : "0u"};
  for (; ${name}_i + ${3 * lanes}u < params.words; ${name}_i += ${4 * lanes}u) {
${
    [0, 1, 2, 3].map((slot) => add(slot, slot === 0 ? `${name}_i` : `${name}_i + ${slot * lanes}u`))
      .join("\n")
  }
  }
  for (; ${name}_i < params.words; ${name}_i += ${lanes}u) {
${add(0, `${name}_i`)}
  }
  let ${name}_own = total((${name}0 + ${name}1) + (${name}2 + ${name}3));
  let ${name} = ${lanes > 1 ? `reduce(${name}_own, local.x)` : `${name}_own`};`;
}

/** Sum over the lanes of a row, in a fixed order. Called by every invocation of the workgroup. */
function reductionWgsl(lanes: number, rows: number): string {
  const steps: string[] = [];
  for (let half = lanes / 2; half >= 1; half /= 2) {
    steps.push(
      `  if (lane < ${half}u) { partial[at] += partial[at + ${half}u]; }
  workgroupBarrier();`,
    );
  }
  return `var<workgroup> partial: array<f32, ${lanes * rows}>;
fn reduce(own: f32, at: u32) -> f32 {
  let lane = at % ${lanes}u;
  partial[at] = own;
  workgroupBarrier();
${steps.join("\n")}
  let sum = partial[at - lane];
  workgroupBarrier();
  return sum;
}`;
}
