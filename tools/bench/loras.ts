/** What LoRAs cost: a step with them, and the switch to others. */

import { join } from "node:path";
import { readLora } from "../../models/lora/read_lora.ts";
import {
  type AdaptableModule,
  type AppliedLora,
  openPipeline,
  type Pipeline,
} from "../../models/mod.ts";
import type { PipelineRequest } from "../../models/pipeline/types.ts";
import { openDevice } from "../../runtime/mod.ts";
import type { Figures } from "./figures.ts";
import { BUNDLED } from "./machine.ts";
import { best, median } from "../../report/statistics.ts";
import { writeLora, writeModel } from "./synthetic_files.ts";

const REQUEST: PipelineRequest = {
  task: "T2I",
  prompt: "a red circle on a blue background",
  negativePrompt: "",
  width: 64,
  height: 64,
  numFrames: 1,
  seed: 7,
  numInferenceSteps: 20,
  guidanceScale: 3.5,
};

/** The rank whose cost is measured. */
const RANK = 32;
/** A transformer of 1.06 GB, and LoRAs of 205 MB for it. */
const LARGE = { sizes: { heads: 12, layers: 11, ffnDim: 8960 }, rank: 196 };

/** Switches forth and back. */
const SWITCHES = 10;

/** Measures LoRAs on the bundled model, and on one of 1 GB that is written for it and removed. */
export async function benchLoras(log: (line: string) => void): Promise<Figures> {
  const folder = await Deno.makeTempDir({ prefix: "denoise-loras-" });
  try {
    const bytes = await writeModel(folder, LARGE.sizes);
    log(`wrote a transformer of ${(bytes / 1e9).toFixed(2)} GB`);
    const [bundled, large] = ["bundled model", "1 GB model"];
    // One step of few tokens is enough to see the switch, and more would only take longer.
    const short = { ...REQUEST, width: 32, height: 32, numInferenceSteps: 1, guidanceScale: 1 };
    return {
      ...await withModel(BUNDLED, async (bench) => ({
        ...await measureSwitches(bundled!, bench, RANK, REQUEST, folder, log),
        ...await measureCost(bundled!, bench, REQUEST, 12, folder, log),
      })),
      ...await withModel(folder, async (bench) => ({
        ...await measureSwitches(large!, bench, LARGE.rank, short, folder, log),
        ...await measureCost(large!, bench, { ...short, width: 256, height: 256 }, 4, folder, log),
      })),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function withModel(
  model: string,
  use: (pipeline: Pipeline) => Promise<Figures>,
): Promise<Figures> {
  const device = await openDevice();
  try {
    using pipeline = await openPipeline(model);
    await pipeline.load(device);
    return await use(pipeline);
  } finally {
    device.destroy();
  }
}

/** From a request to the first work of the GPU, after a request with other LoRAs. */
async function measureSwitches(
  name: string,
  pipeline: Pipeline,
  rank: number,
  request: PipelineRequest,
  folder: string,
  log: (line: string) => void,
): Promise<Figures> {
  const files = [join(folder, "a.safetensors"), join(folder, "b.safetensors")] as const;
  for (const path of files) await writeLora(path, modulesOf(pipeline), rank);
  const prepare = async (loras: readonly AppliedLora[]) =>
    (await pipeline.generate({ ...request, loras })).timings["prepare"]!;
  await prepare([]);
  const unchanged = await prepare([]);
  const [file] = files;
  const raw = await time(() => Deno.readFile(file));
  const loras: AppliedLora[] = [];
  const cold: number[] = [];
  const reads: number[] = [];
  for (const path of files) {
    reads.push(await time(async () => loras.push(await applied(path, pipeline))));
    cold.push(reads.at(-1)! + await prepare(loras.slice(-1)));
  }
  const warm: number[] = [];
  const strengths: number[] = [];
  for (let i = 0; i < SWITCHES; i++) {
    const lora = loras[i % 2]!;
    warm.push(await prepare([lora]));
    strengths.push(await prepare([{ ...lora, strength: i / SWITCHES + 0.1 }]));
  }
  const merging: number[] = [];
  const restoring: number[] = [];
  for (const lora of loras) {
    await prepare([]);
    merging.push(await prepare([{ ...lora, mode: "merge" }]));
    restoring.push(await prepare([]));
  }
  log(
    `${name}: ${(Deno.statSync(file).size / 1e6).toFixed(1)} MB per LoRA; requests take ${
      unchanged.toFixed(1)
    } ms before the first step, ${
      cold.map((ms) => ms.toFixed(0)).join(" and ")
    } ms with a LoRA not seen before`,
  );
  return {
    [`LoRA file read, ${name}`]: { value: raw, unit: "ms" },
    [`LoRA read and matched, ${name}`]: { value: best(reads), unit: "ms" },
    [`cold switch of LoRAs, ${name}`]: { value: cold[1]!, unit: "ms" },
    [`warm switch of LoRAs, ${name}`]: { value: median(warm), unit: "ms" },
    [`worst warm switch of LoRAs, ${name}`]: { value: Math.max(...warm), unit: "ms" },
    [`other strength of LoRAs, ${name}`]: { value: median(strengths), unit: "ms" },
    [`merging of LoRAs, ${name}`]: { value: best(merging), unit: "ms" },
    [`unmerging of LoRAs, ${name}`]: { value: best(restoring), unit: "ms" },
  };
}

/** A step without a LoRA, with one beside the weights, and with one in them, by turns. */
async function measureCost(
  name: string,
  pipeline: Pipeline,
  request: PipelineRequest,
  rounds: number,
  folder: string,
  log: (line: string) => void,
): Promise<Figures> {
  const path = join(folder, "cost.safetensors");
  await writeLora(path, modulesOf(pipeline), RANK);
  const dynamic = await applied(path, pipeline);
  const sets: AppliedLora[][] = [[], [dynamic], [{ ...dynamic, mode: "merge" }]];
  const times: number[][] = sets.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, loras] of sets.entries()) {
      const { timings } = await pipeline.generate({ ...request, loras });
      // The first of each kind compiles.
      if (round > 0) times[i]!.push(timings["denoise"]! / request.numInferenceSteps);
    }
  }
  const [without, withIt, merged] = times.map(best) as [number, number, number];
  const { width, height } = request;
  log(
    `${name}, ${width}x${height}: a step takes ${
      without.toFixed(1)
    } ms, with rank ${RANK} on all linear layers ${withIt.toFixed(1)} ms, merged ${
      merged.toFixed(1)
    } ms`,
  );
  const cost = (withIt / without - 1) * 100;
  return { [`rank ${RANK} on all linear layers, ${name}`]: { value: cost, unit: "%" } };
}

function modulesOf({ info }: Pipeline): readonly AdaptableModule[] {
  return info.adaptable.find(({ target }) => target === "transformer")!.modules;
}

async function applied(path: string, pipeline: Pipeline): Promise<AppliedLora> {
  const lora = await readLora(path, pipeline.info.adaptable);
  return { key: path, lora, strength: 1, targets: ["transformer"], mode: "dynamic" };
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
