/** Whole steps, encoders and decoders of models of full size, with weights that are made up; smaller on slow devices. */

import { hostMemory } from "../../platform/mod.ts";
import {
  type Device,
  DeviceLostError,
  measureMemory,
  planMemory,
  profileProgram,
  type Target,
} from "../../runtime/mod.ts";
import { MadeUpWeights, type MatrixFormat } from "../made_up_weights.ts";
import {
  klDecode,
  klein4B,
  klEncode,
  type ModelPart,
  qwen3Of4B,
  type Size,
  wan1B,
  WAN_VAE,
  wanDecode,
  Z_IMAGE_VAE,
  zImage,
} from "../model_parts.ts";
import { LoadedPart, streamingOf, timeRuns } from "../loaded_part.ts";
import type { PartRow, SectionName } from "../types.ts";
import { type Known, type SectionContext, timeLeft } from "./section.ts";

export interface PartJob {
  readonly title: string;
  readonly format: MatrixFormat;
  /** The job's part of the time, as against the others'. */
  readonly weight: number;
  /** Layers of the model; nothing where it is not built of layers. */
  readonly layers?: number;
  /** The one that is meant first, then smaller ones. */
  readonly sizes: readonly Size[];
  /** Whether the part is also run with the rule's kernels, with factors in f32 and with streamed weights. */
  readonly isCompared?: boolean;
  part(layers: number): ModelPart;
}

const squares = (...sides: number[]) => sides.map((side) => ({ width: side, height: side }));
const IMAGES = squares(1024, 512, 256, 128);
const VIDEOS = [{ width: 832, height: 480 }, ...squares(256, 128)];
/** Latent frames of 33 frames; both prompts in one pass. */
const WAN = { frames: 9, prompts: 2 };

const Z_IMAGE = { title: "Z-Image-Turbo, a step", layers: 30, sizes: IMAGES, part: zImage };
const QWEN3 = {
  title: "Qwen3-4B, a prompt of 64 tokens",
  layers: 36,
  sizes: [{ width: 0, height: 0 }],
  part: (layers: number) => qwen3Of4B(64, layers),
};

const STEPS: readonly PartJob[] = [
  { ...Z_IMAGE, format: "BF16", weight: 7, isCompared: true },
  {
    title: "FLUX.2 klein 4B, a step",
    format: "BF16",
    weight: 4,
    layers: 25,
    sizes: IMAGES,
    isCompared: true,
    part: klein4B,
  },
  {
    title: "Wan 2.1 1.3B, a guided step of 33 frames",
    format: "BF16",
    weight: 5,
    layers: 30,
    sizes: VIDEOS,
    isCompared: true,
    part: (layers) => wan1B(WAN.frames, WAN.prompts, layers),
  },
  { ...Z_IMAGE, format: "Q4_K", weight: 4 },
];

const STAGES: readonly PartJob[] = [
  {
    title: "Z-Image's decoder",
    format: "BF16",
    weight: 2,
    sizes: IMAGES,
    part: () => klDecode(Z_IMAGE_VAE),
  },
  {
    title: "Wan 2.1's decoder, 4 frames",
    format: "BF16",
    weight: 3,
    sizes: VIDEOS,
    part: () => wanDecode(WAN_VAE),
  },
  { ...QWEN3, format: "BF16", weight: 4 },
  { ...QWEN3, format: "Q4_K", weight: 2 },
  {
    title: "Z-Image's encoder",
    format: "BF16",
    weight: 1,
    sizes: IMAGES,
    part: () => klEncode(Z_IMAGE_VAE),
  },
];

export const PARTS: readonly PartJob[] = [...STEPS, ...STAGES];

/** Runs that a part is given time for: to warm up, to count, and some to compare as far as time is left. */
const RUNS = 4;
/** Share of the registers' rate that is expected before the ops were measured. */
const USUAL = 0.2;
/** Bytes of weights that are made up and uploaded in a second, about. */
const UPLOAD_BYTES = 1.5e9;
const TOP_KERNELS = 8;
/** Factor by which the expected time may exceed the time left before a part is omitted. */
const TOO_LONG = 2;
/** Part of the memory that weights and workspace may take. */
const MEMORY_SHARE = 0.9;

export function measureSteps(context: SectionContext<"steps">): Promise<boolean> {
  return measureParts(context, STEPS);
}

export function measureStages(context: SectionContext<"stages">): Promise<boolean> {
  return measureParts(context, STAGES);
}

/** Measures parts one after the other; each gets its part of the time. */
async function measureParts<Name extends Extract<SectionName, "steps" | "stages">>(
  context: SectionContext<Name>,
  jobs: readonly PartJob[],
): Promise<boolean> {
  const rows: PartRow[] = [];
  for (const [i, job] of jobs.entries()) {
    if (timeLeft(context) < 0) return false;
    const later = jobs.slice(i).reduce((sum, { weight }) => sum + weight, 0);
    const seconds = timeLeft(context) / 1000 * job.weight / later;
    rows.push(
      await measurePart(context, job, seconds, (row) => context.found({ rows: [...rows, row] })),
    );
    context.found({ rows });
  }
  return true;
}

interface Traced {
  readonly layers: number;
  readonly size: Size;
  readonly part: ModelPart;
  readonly flops: number;
  readonly weightBytes: number;
  readonly workspaceBytes: number;
  /** Seconds that all runs of the job would take. */
  readonly seconds: number;
}

async function measurePart<Name extends SectionName>(
  { device, known, begin }: SectionContext<Name>,
  job: PartJob,
  seconds: number,
  found: (row: PartRow) => void,
): Promise<PartRow> {
  const { title, format, sizes, isCompared = false } = job;
  begin(`${title}, ${format.toLowerCase()}: planning`);
  const room = await roomOf(device);
  const asked = sizes[0]!;
  let traced: Traced;
  try {
    traced = fit(job, device.target, known, seconds, room);
  } catch (error) {
    return {
      title,
      ...asked,
      format: format.toLowerCase(),
      error: (error as Error).message,
      flops: 0,
      dispatches: 0,
      weightBytes: 0,
      workspaceBytes: 0,
    };
  }
  const { part, size, layers } = traced;
  let row: PartRow = {
    title,
    ...size,
    format: format.toLowerCase(),
    ...(job.layers !== undefined && { layers: { run: layers, all: job.layers } }),
    ...(size !== asked && { asked }),
    flops: traced.flops,
    dispatches: 0,
    weightBytes: traced.weightBytes,
    workspaceBytes: traced.workspaceBytes,
  };
  const name = `${title}, ${row.format} at ${size.width}x${size.height}`;
  if (traced.seconds > TOO_LONG * seconds) {
    const expected = traced.seconds.toFixed(0);
    return {
      ...row,
      error: `it would take about ${expected} s, there were ${seconds.toFixed(0)} s`,
    };
  }
  const end = performance.now() + seconds * 1000;
  const weights = new MadeUpWeights(format, part.hasBias);
  try {
    const step = part.trace(tunedTarget(device.target, known), weights.root, size);
    begin(`${name}: loading`);
    {
      using bench = await LoadedPart.load(device, step, weights);
      row = { ...row, dispatches: step.graph.dispatches.length, loading: bench.loading };
      found(row);
      begin(`${name}: running`);
      const first = await timeRuns(bench.program);
      const left = end - performance.now();
      const tuned = left > 2 * first.wallMs ? await timeRuns(bench.program) : first;
      if (!await bench.isFinite()) row = { ...row, error: "it gave values that are not numbers" };
      // What is not compared has one time, whichever chose the kernels.
      row = { ...row, tuned };
      found(row);
      if (device.target.features.timestamps && end - performance.now() > 2 * tuned.wallMs) {
        begin(`${name}: kernel by kernel`);
        const kernels = await profileProgram(bench.program);
        row = {
          ...row,
          kernels: kernels.slice(0, TOP_KERNELS).map(({ kernel, dispatches, milliseconds }) => ({
            name: kernel,
            dispatches,
            ms: milliseconds,
          })),
        };
        found(row);
      }
    }
    const usual = tunedTarget(device.target, known);
    const others = [
      ["untuned", "with the rule's kernels", known.tuning && { ...usual, choices: {} }],
      [
        "exact",
        "with factors in f32",
        usual.operands !== "f32" && { ...usual, operands: "f32" as const },
      ],
    ] as const;
    for (const [key, what, target] of others) {
      if (!isCompared || !target || end - performance.now() < 3 * row.tuned!.wallMs) continue;
      begin(`${name}: ${what}`);
      const traced = part.trace(target, weights.root, size);
      using other = await LoadedPart.load(device, traced, weights);
      await timeRuns(other.program);
      row = { ...row, [key]: await timeRuns(other.program) };
      found(row);
    }
    weights.destroy();
    const readMs = traced.weightBytes / UPLOAD_BYTES * 1000;
    if (isCompared && end - performance.now() > readMs + row.tuned!.wallMs) {
      begin(`${name}: with streamed weights`);
      const step = part.trace(usual, weights.root, size);
      using streamed = await LoadedPart.load(device, step, weights, streamingOf(weights));
      row = { ...row, streamed: await timeRuns(streamed.program) };
    }
    return row;
  } catch (error) {
    if (error instanceof DeviceLostError) throw error;
    return { ...row, error: (error as Error).message };
  } finally {
    weights.destroy();
  }
}

function tunedTarget(target: Target, { tuning }: Known): Target {
  if (!tuning) return target;
  return { ...target, choices: tuning.choices };
}

async function roomOf(device: Device): Promise<number> {
  const memory = hostMemory().total;
  return MEMORY_SHARE *
    await measureMemory(device, device.adapter.isSoftware ? memory / 2 : 2 ** 36);
}

/** The largest part that fits into the memory and the time: with fewer layers first, which leaves each as it is, then smaller. */
export function fit(
  { part, sizes, format, layers: all = 1 }: PartJob,
  target: Target,
  { layerFlopsPerSecond, flopsPerSecond = 1e11 }: Known,
  seconds: number,
  room: number,
): Traced {
  const rate = layerFlopsPerSecond ?? USUAL * flopsPerSecond;
  const trace = (layers: number, size: Size): Traced => {
    const own = part(layers);
    const weights = new MadeUpWeights(format, own.hasBias);
    const { graph } = own.trace(target, weights.root, size);
    const plan = planMemory({ part: graph });
    const flops = graph.dispatches.reduce((sum, { flops }) => sum + flops, 0);
    const weightBytes = weights.byteLength;
    return {
      layers,
      size,
      part: own,
      flops,
      weightBytes,
      workspaceBytes: plan.peakBytes - weightBytes,
      seconds: RUNS * flops / rate + weightBytes / UPLOAD_BYTES,
    };
  };
  const fits = (traced: Traced) =>
    traced.weightBytes + traced.workspaceBytes <= room && traced.seconds <= seconds;
  let smallest: Traced | undefined;
  let refusal: unknown;
  for (const size of sizes) {
    for (
      let layers = all;
      layers >= 1;
      layers = layers > 2 ? Math.ceil(layers * 0.6) : layers - 1
    ) {
      try {
        smallest = trace(layers, size);
      } catch (error) {
        // A tensor may need more bindings than the adapter has.
        if (!(error instanceof RangeError)) throw error;
        refusal = error;
        break;
      }
      if (fits(smallest)) return smallest;
    }
  }
  if (!smallest) throw refusal;
  return smallest;
}
