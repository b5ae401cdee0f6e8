/**
 * Matrix units for adapters without: WGSL whose subgroup matrices are rewritten as arrays, each invocation of a subgroup
 * of 8 with an eighth of the rows. Slow, and no measure of speed; sums are f32 in another order than a unit's.
 */
import type { SubgroupMatrix } from "../../runtime/mod.ts";

/** Invocations of a subgroup. */
const LANES = 8;
const FEATURE = "chromium-experimental-subgroup-matrix";

/** Sizes of one multiplication, rows a multiple of 8, and the type of its factors, f16 by default. */
export type EmulatedMatrix =
  & Pick<SubgroupMatrix, "m" | "n" | "k">
  & Partial<Pick<SubgroupMatrix, "componentType">>;

/**
 * A GPU whose adapters list one matrix unit, with sums in f32.
 *
 * @param gpu with subgroups of 8 and f16
 * @param rewrite makes WGSL without subgroup matrices of any WGSL
 */
export function withMatrixUnits(
  gpu: GPU,
  rewrite: (wgsl: string) => string = emulateMatrices,
  matrix: EmulatedMatrix = { m: 8, n: 8, k: 8 },
): GPU {
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = await gpu.requestAdapter(options);
    return adapter && adapterWith(adapter, rewrite, matrix);
  };
  return { requestAdapter } as GPU;
}

function adapterWith(
  adapter: GPUAdapter,
  rewrite: (wgsl: string) => string,
  matrix: EmulatedMatrix,
): GPUAdapter {
  const configs = [{
    componentType: matrix.componentType ?? "f16",
    resultComponentType: "f32",
    M: matrix.m,
    N: matrix.n,
    K: matrix.k,
  }];
  const { info } = adapter;
  return {
    limits: adapter.limits,
    features: new Set([...adapter.features, FEATURE]),
    info: {
      ...{ vendor: info.vendor, device: info.device, description: info.description },
      ...{ isFallbackAdapter: info.isFallbackAdapter, subgroupMatrixConfigs: configs },
      ...{ subgroupMinSize: info.subgroupMinSize, subgroupMaxSize: info.subgroupMaxSize },
    },
    requestDevice: async ({ requiredFeatures = [], ...rest }: GPUDeviceDescriptor) => {
      const device = await adapter.requestDevice({
        ...rest,
        requiredFeatures: [...requiredFeatures].filter((name) => name !== FEATURE as string),
      });
      const create = device.createShaderModule.bind(device);
      device.createShaderModule = ({ code, ...others }) =>
        create({ ...others, code: rewrite(code) });
      return device;
    },
  } as unknown as GPUAdapter;
}

/** A kernel in the place of one that rounds to f16, which computes nothing, and counts that f16 does not hold its values. */
export function saturateAlways(wgsl: string): string {
  if (!wgsl.includes("saturation_0")) return wgsl;
  const [params] = /struct Params \{[^}]*\}/.exec(wgsl)!;
  const [counters] = /^.*saturation_0:.*$/m.exec(wgsl)!;
  return `${params}
@group(0) @binding(0) var<uniform> params: Params;
${counters}
@compute @workgroup_size(1)
fn main() { atomicAdd(&saturation_0[params.layer], 1u); }
`;
}

/** A kernel without subgroup matrices that computes the same. */
function emulateMatrices(wgsl: string): string {
  if (!wgsl.includes("subgroup_matrix_")) return wgsl;
  const sizes = /subgroup_matrix_(\w+)<f\d+, (\d+)u?, (\d+)u?>/g;
  const found = new Map([...wgsl.matchAll(sizes)].map(([, kind, columns, rows]) => {
    return [kind!, { rows: Number(rows), columns: Number(columns) }];
  }));
  const left = found.get("left")!;
  const right = found.get("right")!;
  const [m, k, n] = [left.rows / LANES, left.columns, right.columns];
  const counts: Record<string, number> = { left: m * k, right: k * n, result: m * n };
  const helpers = new Map<string, string>();
  const body = wgsl
    .replace(
      /subgroupMatrixLoad<subgroup_matrix_(\w+)<[^>]*>, (\w+)>\(&(\w+), /g,
      (_, kind: string, order: string, source: string) => {
        const name = `load_${kind}_${order}_${source}`;
        const [rows, columns] = kind === "right" ? [k, n] : [m, kind === "left" ? k : n];
        const row = kind === "right" ? "i" : `lane * ${m}u + i`;
        const [outer, inner] = order === "row_major" ? [row, "j"] : ["j", row];
        helpers.set(
          name,
          `fn ${name}(first: u32, step: u32) -> array<f32, ${counts[kind]}> {
  var x: array<f32, ${counts[kind]}>;
  for (var i = 0u; i < ${rows}u; i = i + 1u) {
    for (var j = 0u; j < ${columns}u; j = j + 1u) {
      x[i * ${columns}u + j] = f32(${source}[first + (${outer}) * step + (${inner}) / 4u][(${inner}) & 3u]);
    }
  }
  return x;
}`,
        );
        return `${name}(`;
      },
    )
    .replace(/subgroupMatrixStore<row_major>\(&(\w+), /g, (_, target: string) => {
      const name = `store_${target}`;
      helpers.set(
        name,
        `fn ${name}(first: u32, value: array<f32, ${m * n}>, step: u32) {
  var x = value;
  for (var i = 0u; i < ${m}u; i = i + 1u) {
    for (var j = 0u; j < ${n}u; j = j + 4u) {
      let at = i * ${n}u + j;
      ${target}[first + (lane * ${m}u + i) * step + j / 4u] = vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
    }
  }
}`,
      );
      return `${name}(`;
    })
    .replaceAll("subgroupMatrixMultiplyAccumulate(", "multiply_accumulate(")
    .replace(sizes, (_, kind: string) => `array<f32, ${counts[kind]}>`)
    .replace(/(fn main\([^{]*\{\n)/, `$1  lane = local.x % ${LANES}u;\n`);
  return `${body}
var<private> lane: u32;
fn multiply_accumulate(l: array<f32, ${counts["left"]}>, r: array<f32, ${
    counts["right"]
  }>, s: array<f32, ${counts["result"]}>) -> array<f32, ${counts["result"]}> {
  var a = l;
  var b = r;
  var y = s;
  for (var i = 0u; i < ${m}u; i = i + 1u) {
    for (var d = 0u; d < ${k}u; d = d + 1u) {
      for (var j = 0u; j < ${n}u; j = j + 1u) {
        y[i * ${n}u + j] = fma(a[i * ${k}u + d], b[d * ${n}u + j], y[i * ${n}u + j]);
      }
    }
  }
  return y;
}
${[...helpers.values()].join("\n")}
`;
}
