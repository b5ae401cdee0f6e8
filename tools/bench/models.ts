/** Times of the bundled model: loading, images, a video, and where the GPU's time goes. */

import { type Engine, type GenerateRequest, openEngine } from "../../engine/mod.ts";
import { ms, percent } from "../../report/cells.ts";
import { ceilingShare, measureCeilings } from "../../report/ceilings.ts";
import { timeRuns } from "../../report/loaded_part.ts";
import {
  type Device,
  type Executable,
  profileProgram,
  type ProfileRow,
} from "../../runtime/mod.ts";
import { Stopwatch } from "../../runtime/program/stopwatch.ts";
import { BUNDLED, IMAGE, loadPrograms } from "./bundled.ts";
import { alignColumns, type Figures, median } from "./history.ts";

/** Frames of the video: three latent frames. */
const VIDEO_FRAMES = 9;

/** How often each is measured: enough for a best and a median within two minutes on two slow cores. */
const ROUNDS = { load: 5, image: 10, video: 3 };
/** Profiles of a program, of which the best counts, and the kernels that are shown. */
const PROFILES = 3;
const TOP_KERNELS = 6;

export async function benchModels(log: (line: string) => void): Promise<Figures> {
  log(`load: ${ROUNDS.load} times`);
  const loads = await measureLoads(ROUNDS.load);
  const engine = await openEngine({ modelPath: BUNDLED });
  try {
    const { width, height } = engine.info.defaults;
    const native = { ...IMAGE, width, height };
    return {
      "load best": { value: Math.min(...loads), unit: "s" },
      "load median": { value: median(loads), unit: "s" },
      ...await measureRequest(engine, "image 64x64", IMAGE, ROUNDS.image, log),
      ...await measureRequest(engine, `image ${width}x${height}`, native, ROUNDS.image, log),
      ...await measureRequest(
        engine,
        `video 64x64, ${VIDEO_FRAMES} frames`,
        { ...IMAGE, numFrames: VIDEO_FRAMES },
        ROUNDS.video,
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
  const make = async () => {
    const start = performance.now();
    const { timings, peakBytes } = await engine.generate(request);
    const seconds = (performance.now() - start) / 1000;
    const { denoise = 0, decode = 0 } = timings;
    const stepMs = denoise * 1000 / request.numInferenceSteps;
    return { seconds, stepMs, decodeShare: decode / seconds * 100, peakBytes };
  };
  const first = await make();
  const made: (typeof first)[] = [];
  for (let round = 0; round < rounds; round++) made.push(await make());
  const all = (key: keyof typeof first) => made.map((each) => each[key]);
  return {
    [`${name} first`]: { value: first.seconds, unit: "s" },
    [`${name} best`]: { value: Math.min(...all("seconds")), unit: "s" },
    [`${name} median`]: { value: median(all("seconds")), unit: "s" },
    [`${name} denoise step`]: { value: Math.min(...all("stepMs")), unit: "ms" },
    [`${name} decode share`]: { value: median(all("decodeShare")), unit: "%" },
    [`${name} device peak`]: {
      value: Math.max(first.peakBytes, ...all("peakBytes")) / 1e6,
      unit: "MB",
    },
  };
}

/** Kernels of a step and of the decoder, beside loops of whole programs, so that what is lost between kernels shows. */
export async function benchKernels(
  device: Device,
  log: (line: string) => void,
): Promise<Figures> {
  if (!device.target.features.timestamps) {
    log(`no kernel profile: the adapter "${device.adapter.name}" has no timestamps`);
    return {};
  }
  const { step, decode } = await loadPrograms(device);
  using stopwatch = await Stopwatch.open(device);
  const ceilings = await measureCeilings(device, stopwatch);
  /** Milliseconds of a kernel on a device that does all it can. */
  const atCeiling = ({ kernel, gflops, gigabytesPerSecond, milliseconds: ms }: ProfileRow) => {
    const [flops, bytes] = [gflops * ms * 1e6, gigabytesPerSecond * ms * 1e6];
    return ms * ceilingShare({ flops, bytes, ms, kernels: [kernel] }, ceilings);
  };
  const profile = async (name: string, program: Executable): Promise<Figures> => {
    const loops: number[] = [];
    let rows: ProfileRow[] = [];
    for (let round = 0; round < PROFILES; round++) {
      loops.push((await timeRuns(program, IMAGE.numInferenceSteps)).wallMs);
      const found = await profileProgram(program);
      if (round === 0 || total(found) < total(rows)) rows = found;
    }
    const kernels = total(rows);
    log(`${name}: ${ms(Math.min(...loops))} in a loop, ${ms(kernels)} in its kernels`);
    const longest = rows.slice(0, TOP_KERNELS).map((row) => [
      `  ${row.kernel}`,
      `${row.dispatches}x`,
      ms(row.milliseconds)!,
      percent(row.milliseconds / kernels),
      `${row.gflops.toFixed(2)} GFLOP/s`,
      `${row.gigabytesPerSecond.toFixed(2)} GB/s`,
    ]);
    for (const line of alignColumns(longest, [1, 2, 3, 4, 5])) log(line);
    return {
      [`${name} in a loop`]: { value: Math.min(...loops), unit: "ms" },
      [`${name} kernels`]: { value: kernels, unit: "ms" },
      [`${name} at the ceiling`]: { value: total(rows, atCeiling), unit: "ms" },
    };
  };
  return { ...await profile("denoise step", step), ...await profile("decode", decode) };
}

function total(rows: readonly ProfileRow[], of = (row: ProfileRow) => row.milliseconds): number {
  return rows.reduce((sum, row) => sum + of(row), 0);
}
