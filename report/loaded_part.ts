/** A part of a model on the device, run as an engine runs it: what the GPU does meanwhile, and what it waits for. */

import {
  type Device,
  DeviceTensor,
  type Executable,
  type ExecutableSet,
  instantiate,
  isWeightFormat,
  planMemory,
  type Program,
  runSequence,
  type StreamingOptions,
  type Weights,
} from "../runtime/mod.ts";
import { fillRandom } from "../runtime/ops/sample_blocks.ts";
import { measureTickPeriod, TimestampRecorder } from "../runtime/program/profile.ts";

export interface PartTiming {
  /** Milliseconds from the first submit until the GPU was done. */
  readonly wallMs: number;
  /** Time in which a pass ran, in milliseconds; nothing where the adapter has no timestamps. */
  readonly busyMs?: number;
  /** Times that this side waited for the GPU. */
  readonly waits: number;
}

export interface PartLoading {
  /** Kernels that were compiled, and the seconds for that. */
  readonly pipelines: number;
  readonly compileSeconds: number;
  /** Weights that were brought to the device, in bytes, and the seconds for that. */
  readonly weightBytes: number;
  readonly uploadSeconds: number;
}

/** Weights that are streamed: all that are worth a read of their own. */
const STREAMED_BYTES = 2 ** 20;
const SEGMENT_BYTES = 128 * 2 ** 20;

/** What {@linkcode planMemory} is told so that weights are streamed. */
export function streamingOf(weights: Weights): StreamingOptions {
  const large = weights.deviceTensors.filter(({ byteLength }) => byteLength >= STREAMED_BYTES);
  return { streamed: new Set(large), segmentBytes: SEGMENT_BYTES };
}

/** Runs a program a few times in a row, as an engine does. */
export async function timeRuns(program: Executable, times = 1): Promise<PartTiming> {
  const { device } = program;
  const passes = program.submits.length;
  const hasClock = device.target.features.timestamps;
  using recorder = hasClock ? new TimestampRecorder(device, passes) : undefined;
  try {
    program.timestamps = recorder && ((index) => recorder.writes(index));
    const waits = device.counters.waits;
    const start = performance.now();
    await runSequence(
      device,
      Array.from({ length: times }, () => ({ programs: [program], stage: "part" })),
    );
    const wallMs = (performance.now() - start) / times;
    const waited = (device.counters.waits - waits) / times;
    if (!recorder) return { wallMs, waits: waited };
    const busyMs = await recorder.ticksOf(passes) * await measureTickPeriod(device) / 1e6;
    return { wallMs, busyMs, waits: waited };
  } finally {
    program.timestamps = undefined;
  }
}

export class LoadedPart {
  readonly loading: PartLoading;
  readonly program: Executable;
  readonly #set: ExecutableSet;
  readonly #outputs: unknown;
  readonly #tensors: readonly DeviceTensor[];

  private constructor(
    set: ExecutableSet,
    outputs: unknown,
    tensors: readonly DeviceTensor[],
    loading: PartLoading,
  ) {
    this.loading = loading;
    this.program = set.get("part");
    this.#set = set;
    this.#outputs = outputs;
    this.#tensors = tensors;
  }

  /** Uploads weights, makes inputs up and compiles. */
  static async load(
    device: Device,
    traced: Program,
    weights: Weights,
    streaming: StreamingOptions = {},
  ): Promise<LoadedPart> {
    const { streamed } = streaming;
    const plan = planMemory({ part: traced.graph }, streaming);
    const start = performance.now();
    const wanted = { has: (weight: DeviceTensor) => !streamed?.has(weight) };
    let weightBytes = 0;
    await weights.upload(device, (done) => weightBytes = done, wanted);
    await device.wait();
    const uploaded = performance.now();
    const tensors = [...plan.tensors].filter((tensor) => !tensor.isAllocated);
    try {
      for (const tensor of tensors) {
        tensor.allocate(device);
        if (!isWeightFormat(tensor.dtype) && tensor.dtype !== "u32") fillRandom(tensor, 0.5);
      }
      const begun = performance.now();
      const before = device.counters.pipelines;
      const set = await instantiate(plan, device);
      const loading = {
        weightBytes,
        uploadSeconds: (uploaded - start) / 1000,
        pipelines: device.counters.pipelines - before,
        compileSeconds: (performance.now() - begun) / 1000,
      };
      return new LoadedPart(set, traced.outputs, tensors, loading);
    } catch (error) {
      for (const tensor of tensors) tensor.destroy();
      throw error;
    }
  }

  async isFinite(): Promise<boolean> {
    const outputs = this.#outputs;
    return !(outputs instanceof DeviceTensor) ||
      (await outputs.readFloat32()).every((value) => Number.isFinite(value));
  }

  /** Frees all but the weights. */
  [Symbol.dispose](): void {
    this.#set.destroy();
    for (const tensor of this.#tensors) tensor.destroy();
  }
}
