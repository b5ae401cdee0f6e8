/**
 * Times ops on the adapter at hand.
 *
 *     deno run -A tools/bench/ops.ts [--all] [--rounds 5] [linear:512x512x512 attention:256x5x32 …]
 *
 * Sizes: linear and matmul MxNxK, attention LxHxD, softmax ROWSxN. `--all` times every variant of an op, not only
 * the one that the adapter would get. Rounds are interleaved over all rows and the best of them counts, because
 * machines are rarely idle for long.
 */
import { parseArgs } from "node:util";
import type { Device } from "../../runtime/device.ts";
import { openDevice } from "../../runtime/open_device.ts";
import { Graph, type Tensor } from "../../runtime/graph.ts";
import { attention, ATTENTION_VARIANTS } from "../../runtime/ops/attention/mod.ts";
import { GEMM_VARIANTS } from "../../runtime/ops/gemm.ts";
import { linear } from "../../runtime/ops/linear/mod.ts";
import { matmul } from "../../runtime/ops/matmul/mod.ts";
import { softmax, SOFTMAX_VARIANTS } from "../../runtime/ops/softmax/mod.ts";
import { planMemory } from "../../runtime/plan.ts";
import { instantiate, type ProgramSet } from "../../runtime/program.ts";
import { Resident } from "../../runtime/resident.ts";
import type { Shape } from "../../runtime/shape.ts";

/** What was measured of one op at one size. */
export interface OpTiming {
  /** As given, e.g. `linear:512x512x512`. */
  readonly spec: string;
  /** The forced variant, or nothing for the adapter's own choice. */
  readonly variant: string | undefined;
  /** Best time of one call, in milliseconds. */
  readonly milliseconds: number;
  readonly gigaflops: number;
}

interface BenchedOp {
  readonly variants: readonly string[];
  inputs(...sizes: number[]): Shape[];
  build(...tensors: Tensor[]): Tensor;
}

const OPS: Readonly<Record<string, BenchedOp>> = {
  linear: {
    variants: GEMM_VARIANTS,
    inputs: (m, n, k) => [[m!, k!], [n!, k!]],
    build: (x, w) => linear(x!, w!),
  },
  matmul: {
    variants: GEMM_VARIANTS,
    inputs: (m, n, k) => [[m!, k!], [k!, n!]],
    build: (a, b) => matmul(a!, b!),
  },
  attention: {
    variants: ATTENTION_VARIANTS,
    inputs: (length, heads, headDim) => new Array(3).fill([1, length!, heads!, headDim!]),
    build: (q, k, v) => attention(q!, k!, v!),
  },
  softmax: {
    variants: SOFTMAX_VARIANTS,
    inputs: (rows, n) => [[rows!, n!]],
    build: (x) => softmax(x!),
  },
};

/** The sizes of the bundled model, and two that fill the machine. */
const DEFAULT_SPECS = [
  "linear:1x960x160",
  "linear:16x640x160",
  "linear:256x160x160",
  "linear:1280x640x160",
  "linear:512x512x512",
  "linear:1024x1024x1024",
  "matmul:512x512x512",
  "attention:16x5x32",
  "attention:256x5x32",
  "attention:1024x5x32",
  "attention:256x4x128",
  "softmax:1280x256",
];

/** Work of one program, so that the cost of a submit does not count, and the least time of one measurement. */
const PROGRAM_FLOPS = 5e7;
const MAX_COPIES = 256;
const MEASURED_MS = 60;

interface Prepared {
  readonly spec: string;
  readonly variant: string | undefined;
  readonly programs: ProgramSet;
  readonly residents: readonly Resident[];
  readonly copies: number;
  readonly flops: number;
  submits: number;
  best: number;
}

/**
 * Times ops.
 *
 * @param specs `OP:SIZExSIZE…`
 * @throws {RangeError} when a spec names an unknown op or sizes that it does not take
 */
export async function benchOps(
  device: Device,
  specs: readonly string[],
  { rounds = 5, allVariants = false }: { rounds?: number; allVariants?: boolean } = {},
): Promise<OpTiming[]> {
  const prepared: Prepared[] = [];
  try {
    for (const spec of specs) {
      const variants = allVariants ? opOf(spec).op.variants : [undefined];
      for (const variant of variants) {
        const entry = await prepare(device, spec, variant);
        if (entry) prepared.push(entry);
      }
    }
    const idle = await bestOf(5, () => timed(device, () => {}));
    const measure = (entry: Prepared) =>
      timed(device, () => {
        for (let i = 0; i < entry.submits; i++) entry.programs.get("main").submit();
      });
    for (const entry of prepared) {
      await measure(entry); // The first run may still compile.
      entry.submits = Math.ceil(MEASURED_MS / Math.max(0.1, await measure(entry) - idle));
    }
    for (let round = 0; round < rounds; round++) {
      for (const entry of prepared) {
        const calls = entry.submits * entry.copies;
        entry.best = Math.min(entry.best, (await measure(entry) - idle) / calls);
      }
    }
    return prepared.map(({ spec, variant, best, flops }) => ({
      spec,
      variant,
      milliseconds: best,
      gigaflops: flops / best / 1e6,
    }));
  } finally {
    for (const { programs, residents } of prepared) {
      programs.destroy();
      for (const resident of residents) resident.destroy();
    }
  }
}

function opOf(spec: string): { name: string; op: BenchedOp; shapes: Shape[] } {
  const [name = "", sizes = ""] = spec.split(":");
  const op = OPS[name];
  if (!op) {
    throw new RangeError(`Cannot bench "${spec}": the ops are ${Object.keys(OPS).join(", ")}`);
  }
  const shapes = op.inputs(...sizes.split("x").map(Number));
  if (!shapes.flat().every((size) => Number.isInteger(size) && size > 0)) {
    throw new RangeError(`Cannot bench "${spec}": the sizes are not positive integers`);
  }
  return { name, op, shapes };
}

/** Builds the program of a row; nothing when the variant does not take the sizes. */
async function prepare(
  device: Device,
  spec: string,
  variant: string | undefined,
): Promise<Prepared | undefined> {
  const { name, op, shapes } = opOf(spec);
  const forcedVariants = variant === undefined ? {} : { [name]: variant };
  // One submit per program: the budget of a submit is for desktops.
  const submitBudget = { flops: Infinity, bytes: Infinity };
  const graph = new Graph(spec, { ...device.target, forcedVariants, submitBudget });
  const residents = shapes.map((shape, i) => new Resident(`input ${i}`, shape));
  const tensors = residents.map((resident) => graph.use(resident));
  try {
    op.build(...tensors);
  } catch (error) {
    if (variant !== undefined && error instanceof RangeError) return undefined;
    throw error;
  }
  const { flops } = graph.dispatches[0]!;
  const copies = Math.min(MAX_COPIES, Math.ceil(PROGRAM_FLOPS / flops));
  for (let i = 1; i < copies; i++) op.build(...tensors);
  for (const [i, resident] of residents.entries()) {
    const count = tensors[i]!.size;
    resident.allocate(device).write(
      Float32Array.from({ length: count }, (_, at) => Math.sin(at + i)),
    );
  }
  const programs = await instantiate(planMemory({ main: graph }), device);
  return { spec, variant, programs, residents, copies, flops, submits: 1, best: Infinity };
}

/** Milliseconds from before `work` until the GPU is done with it. */
async function timed(device: Device, work: () => void): Promise<number> {
  const start = performance.now();
  work();
  await device.wait();
  return performance.now() - start;
}

async function bestOf(times: number, measure: () => Promise<number>): Promise<number> {
  let best = Infinity;
  for (let i = 0; i < times; i++) best = Math.min(best, await measure());
  return best;
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { all: { type: "boolean" }, rounds: { type: "string" } },
  });
  const device = await openDevice();
  console.log(device.adapter.name);
  const specs = positionals.length > 0 ? positionals : DEFAULT_SPECS;
  const timings = await benchOps(device, specs, {
    rounds: Number(values.rounds ?? 5),
    allVariants: values.all ?? false,
  });
  for (const { spec, variant, milliseconds, gigaflops } of timings) {
    console.log(
      `${spec.padEnd(28)} ${(variant ?? "").padEnd(10)} ${
        milliseconds.toFixed(3).padStart(10)
      } ms ${gigaflops.toFixed(1).padStart(8)} GFLOP/s`,
    );
  }
  device.destroy();
}
