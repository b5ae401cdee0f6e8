/**
 * A model's first step: how long it takes from the start, what it takes of memory, and which image it gives.
 *
 *     deno run -A tools/bench/first_step.ts FOLDER --transformer model-Q4_K.gguf --max-vram 4G --side 256 --save
 *     deno run -A tools/bench/first_step.ts FOLDER --width 832 --height 480 --num-frames 5 --guidance-scale 1
 *     deno run -A tools/bench/first_step.ts FOLDER --transformer-2 low-Q4_K.gguf --steps 2 --flow-shift 3
 *
 * The files are read once before, which says how long reading takes and whether the rest is more than that and the
 * GPU's work. Images of other budgets must have the same sum. Schedules that end above zero need --steps 2. Of two
 * experts, each takes one of two steps where --flow-shift puts the boundary between them.
 */

import { join } from "node:path";
import { parseArgs } from "node:util";
import { memory } from "../../commands/flags.ts";
import { openPipeline, type PartPaths, roomOf } from "../../models/mod.ts";
import { type Device, openDevice } from "../../runtime/mod.ts";
import type { Figures } from "./figures.ts";
import { HISTORY, historyLine } from "./history.ts";
import { currentCommit, describeDevice } from "./machine.ts";

/** Which files end in this hold weights. */
const WEIGHTS = /\.(?:safetensors|gguf)$/;
const PROMPT = "a red circle on a blue background";
/** Bytes that are read at a time. */
const CHUNK_BYTES = 16 * 1024 * 1024;

const OPTIONS = {
  transformer: { type: "string" },
  "transformer-2": { type: "string" },
  "text-encoder": { type: "string" },
  "text-encoder-2": { type: "string" },
  "max-vram": { type: "string" },
  side: { type: "string", default: "256" },
  width: { type: "string" },
  height: { type: "string" },
  "num-frames": { type: "string", default: "1" },
  "guidance-scale": { type: "string" },
  "flow-shift": { type: "string" },
  steps: { type: "string", default: "1" },
  save: { type: "boolean" },
} as const;

/** What is made. */
interface Work {
  readonly width: number;
  readonly height: number;
  readonly numFrames: number;
  readonly numInferenceSteps: number;
  readonly guidanceScale?: number;
  readonly flowShift?: number;
}

/** What a run took. */
interface FirstStep {
  /** From the start to the end of the first step, in seconds. */
  readonly seconds: number;
  /** Of each further step, loading of what it needs included. */
  readonly furtherSeconds: readonly number[];
  /** Seconds from the end of the last step to the last frame. */
  readonly decodeSeconds: number;
  /** Waiting for the GPU, in all. */
  readonly waitSeconds: number;
  /** Most memory of the device. */
  readonly peakBytes: number;
  /** What was planned. */
  readonly plannedBytes: number;
  /** The largest JavaScript heap that was seen. */
  readonly heapBytes: number;
  /** SHA-256 of the image, its beginning. */
  readonly image: string;
}

/** Where a model has the parts that flags may name elsewhere. */
const FOLDERS = {
  transformer: "transformer/",
  transformer2: "transformer_2/",
  textEncoder: "text_encoder/",
  textEncoder2: "text_encoder_2/",
};

/** Seconds that it takes to read all weights once. */
async function readingSeconds(folder: string, parts: PartPaths): Promise<number> {
  const paths = await weightFiles(folder);
  const others = Object.entries(FOLDERS)
    .filter(([part]) => parts[part as keyof PartPaths] !== undefined)
    .map(([, own]) => join(folder, own));
  const read = [
    ...paths.filter((path) => !others.some((own) => path.startsWith(own))),
    ...Object.values(parts),
  ];
  const start = performance.now();
  const chunk = new Uint8Array(CHUNK_BYTES);
  for (const path of read) {
    using file = await Deno.open(path);
    while (await file.read(chunk) !== null);
  }
  return (performance.now() - start) / 1000;
}

async function weightFiles(folder: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) paths.push(...await weightFiles(path));
    else if (WEIGHTS.test(name)) paths.push(path);
  }
  return paths;
}

/** Adds up what a device lets its thread wait, and calls `seen` now and then. */
function watchDevice(device: Device, seen: () => void): { readonly waitSeconds: number } {
  const watched = { waitSeconds: 0 };
  const write = device.write.bind(device);
  device.write = (...parameters) => {
    write(...parameters);
    seen();
  };
  const timed = async <T>(work: (next: () => void) => Promise<T>, next?: () => void) => {
    const start = performance.now();
    let other = 0;
    const result = await work(() => {
      const before = performance.now();
      next?.();
      other = performance.now() - before;
    });
    watched.waitSeconds += (performance.now() - start - other) / 1000;
    seen();
    return result;
  };
  const wait = device.wait.bind(device);
  device.wait = (next) => timed(wait, next);
  const read = device.read.bind(device);
  device.read = (windows, next) => timed((then) => read(windows, then), next);
  return watched;
}

async function makeFirstStep(
  folder: string,
  parts: PartPaths,
  maxBytes: number | undefined,
  work: Work,
): Promise<FirstStep> {
  const start = performance.now();
  let heapBytes = 0;
  let calls = 0;
  const ends: number[] = [];
  const device = await openDevice(maxBytes === undefined ? {} : { maxBytes });
  const watched = watchDevice(device, () => {
    if (calls++ % 16 === 0) heapBytes = Math.max(heapBytes, Deno.memoryUsage().heapUsed);
  });
  try {
    using pipeline = await openPipeline(folder, parts);
    // Before weights are on the device: they would not count as room.
    const { peakBytes: plannedBytes } = await pipeline.plan(
      { ...work, prompt: PROMPT },
      roomOf(device),
    );
    await pipeline.load(device, undefined, { onNote: (line) => console.error(line) });
    device.resetPeak();
    const { defaultTask, defaults } = pipeline.info;
    const { frames } = await pipeline.generate({
      ...defaults,
      task: defaultTask,
      prompt: PROMPT,
      seed: 7,
      ...work,
    }, {
      onProgress: ({ stage, step }) => {
        const now = (performance.now() - start) / 1000;
        const megabytes = (device.peakBytes / 1e6).toFixed(0);
        console.error(`${stage} ${step}: ${now.toFixed(1)} s, ${megabytes} MB`);
        if (stage === "denoise" && step > 0) ends.push(now);
      },
    });
    const decodeSeconds = (performance.now() - start) / 1000 - ends.at(-1)!;
    const sum = await crypto.subtle.digest("SHA-256", new Float32Array(frames[0]!));
    const image = new Uint8Array(sum).toHex().slice(0, 16);
    const { waitSeconds } = watched;
    const { peakBytes } = device;
    return {
      seconds: ends[0]!,
      furtherSeconds: ends.slice(1).map((end, i) => end - ends[i]!),
      ...{ decodeSeconds, waitSeconds, peakBytes, plannedBytes, heapBytes, image },
    };
  } finally {
    device.destroy();
  }
}

async function main(): Promise<void> {
  const { values, positionals: [folder] } = parseArgs({ options: OPTIONS, allowPositionals: true });
  if (folder === undefined) {
    console.error("denoise: Cannot make a step without a model: name its folder");
    Deno.exit(2);
  }
  const { transformer, "max-vram": budget, side } = values;
  const parts = Object.fromEntries(
    Object.entries({
      transformer,
      transformer2: values["transformer-2"],
      textEncoder: values["text-encoder"],
      textEncoder2: values["text-encoder-2"],
    }).filter(([, path]) => path !== undefined),
  ) as PartPaths;
  const work: Work = {
    width: Number(values.width ?? side),
    height: Number(values.height ?? side),
    numFrames: Number(values["num-frames"]),
    numInferenceSteps: Number(values.steps),
    ...(values["guidance-scale"] && { guidanceScale: Number(values["guidance-scale"]) }),
    ...(values["flow-shift"] && { flowShift: Number(values["flow-shift"]) }),
  };
  const maxBytes = budget === undefined ? undefined : memory(budget);
  const reading = await readingSeconds(folder, parts);
  const load = Number((Deno.loadavg()[0] ?? 0).toFixed(2));
  const step = await makeFirstStep(folder, parts, maxBytes, work);
  const size = [work.width, work.height, ...(work.numFrames > 1 ? [work.numFrames] : [])].join("x");
  const name = `${(transformer ?? folder).split("/").at(-1)}, first step of ${size}` +
    (budget === undefined ? "" : ` in ${budget}`);
  const seconds: [string, number][] = [
    [name, step.seconds],
    ...step.furtherSeconds.map((value, i): [string, number] => [`${name}: step ${i + 2}`, value]),
    [`${name}: decode`, step.decodeSeconds],
  ];
  const all = seconds.reduce((sum, [, value]) => sum + value, 0);
  const results: Figures = {
    ...Object.fromEntries(seconds.map(([part, value]) => [part, { value, unit: "s" }])),
    [`${name}: of reading and computing`]: {
      value: 100 * all / (reading + step.waitSeconds),
      unit: "%",
    },
    [`${name}: device memory`]: { value: step.peakBytes / 1e6, unit: "MB" },
    [`${name}: device memory of the plan`]: {
      value: 100 * step.peakBytes / step.plannedBytes,
      unit: "%",
    },
    [`${name}: JavaScript heap`]: { value: step.heapBytes / 1e6, unit: "MB" },
  };
  for (const [figure, { value, unit }] of Object.entries(results)) {
    console.log(`${figure}: ${value.toPrecision(4)} ${unit}`);
  }
  console.log(
    `reading ${reading.toFixed(1)} s, waiting for the GPU ${step.waitSeconds.toFixed(1)} s`,
  );
  console.log(`image ${step.image}`);
  if (values.save) {
    const run = {
      date: new Date().toISOString(),
      commit: await currentCommit(),
      device: await describeDevice(),
      load,
      results,
    };
    await Deno.writeTextFile(HISTORY, historyLine(run), { append: true });
  }
}

if (import.meta.main) await main();
