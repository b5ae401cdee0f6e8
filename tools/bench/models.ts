/** Times of the bundled model: loading, images, a video. */

import { type Engine, type GenerateRequest, openEngine } from "../../engine/mod.ts";
import type { Figures } from "./figures.ts";
import { BUNDLED } from "./machine.ts";
import { best, median } from "../../report/statistics.ts";

/** The image that every bench makes: guided, so each step runs both prompts. */
export const IMAGE: GenerateRequest = {
  prompt: "a red circle on a blue background",
  width: 64,
  height: 64,
  numFrames: 1,
  seed: 7,
  numInferenceSteps: 20,
  guidanceScale: 3.5,
};

/** Frames of the video: three latent frames. */
const VIDEO_FRAMES = 9;

/** How often each is measured. */
interface ModelRounds {
  load: number;
  image: number;
  video: number;
}

/** Enough for a best and a median within two minutes on two slow cores. */
const MODEL_ROUNDS: ModelRounds = { load: 5, image: 10, video: 3 };

/** Measures loading and generating. */
export async function benchModels(
  log: (line: string) => void,
  rounds: ModelRounds = MODEL_ROUNDS,
): Promise<Figures> {
  log(`load: ${rounds.load} times`);
  const loads = await measureLoads(rounds.load);
  const engine = await openEngine({ modelPath: BUNDLED });
  try {
    const { width, height } = engine.info.defaults;
    const native = { ...IMAGE, width, height };
    return {
      "load best": { value: best(loads), unit: "s" },
      "load median": { value: median(loads), unit: "s" },
      ...await measureRequest(engine, "image 64x64", IMAGE, rounds.image, log),
      ...await measureRequest(engine, `image ${width}x${height}`, native, rounds.image, log),
      ...await measureRequest(
        engine,
        `video 64x64, ${VIDEO_FRAMES} frames`,
        { ...IMAGE, numFrames: VIDEO_FRAMES },
        rounds.video,
        log,
      ),
    };
  } finally {
    await engine.close();
  }
}

/** Seconds from starting the worker to a model that is ready; the files are in the disk cache. */
async function measureLoads(rounds: number): Promise<number[]> {
  const seconds: number[] = [];
  // The first one fills the caches of the disk and of the compiler and does not count.
  for (let round = -1; round < rounds; round++) {
    const start = performance.now();
    const engine = await openEngine({ modelPath: BUNDLED });
    if (round >= 0) seconds.push((performance.now() - start) / 1000);
    await engine.close();
  }
  return seconds;
}

/** The first run of a kind traces, compiles and allocates; the later ones only replay. */
async function measureRequest(
  engine: Engine,
  name: string,
  request: GenerateRequest,
  rounds: number,
  log: (line: string) => void,
): Promise<Figures> {
  log(`${name}: ${rounds} times`);
  const first = await timed(() => engine.generate(request));
  const seconds: number[] = [];
  const decodeShares: number[] = [];
  const steps: number[] = [];
  let peakBytes = first.result.peakBytes;
  for (let round = 0; round < rounds; round++) {
    const { seconds: taken, result } = await timed(() => engine.generate(request));
    seconds.push(taken);
    decodeShares.push((result.timings["decode"] ?? 0) / taken * 100);
    steps.push((result.timings["denoise"] ?? 0) * 1000 / request.numInferenceSteps);
    peakBytes = Math.max(peakBytes, result.peakBytes);
  }
  return {
    [`${name} first`]: { value: first.seconds, unit: "s" },
    [`${name} best`]: { value: best(seconds), unit: "s" },
    [`${name} median`]: { value: median(seconds), unit: "s" },
    [`${name} denoise step`]: { value: best(steps), unit: "ms" },
    [`${name} decode share`]: { value: median(decodeShares), unit: "%" },
    [`${name} device peak`]: { value: peakBytes / 1e6, unit: "MB" },
  };
}

async function timed<T>(work: () => Promise<T>): Promise<{ seconds: number; result: T }> {
  const start = performance.now();
  const result = await work();
  return { seconds: (performance.now() - start) / 1000, result };
}
