/** A pipeline on a device whose limits a test may choose. */
import {
  type MemoryOptions,
  type ModelParts,
  openPipeline,
  type Pipeline,
  type PipelineRequest,
} from "../../models/mod.ts";
import { Device, type DeviceOptions, Pacer, type Target } from "../../runtime/mod.ts";
import { Golden } from "./golden.ts";
import { openTestDevice } from "./model_run.ts";

/** A small Wan pipeline of the TI2V type. */
export const FOLDER = new Golden("wan/pipeline-ti2v").folder;

/** A request for it. */
export const REQUEST: PipelineRequest = {
  task: "T2V",
  prompt: "a red circle",
  negativePrompt: "blurry",
  width: 32,
  height: 32,
  numFrames: 5,
  seed: 1,
  numInferenceSteps: 3,
  guidanceScale: 4,
};

/** A loaded pipeline on its device. */
export interface Fixture {
  readonly device: Device;
  readonly pipeline: Pipeline;
  /** Device memory of the weights. */
  readonly weightBytes: number;
}

/** How a pipeline is set up. */
interface FixtureOptions {
  /** How the device is opened. */
  readonly opening?: DeviceOptions;
  readonly folder?: string;
  /** What does not come from the folder. */
  readonly parts?: ModelParts;
  readonly maxBytes?: number;
  /** Small ones cut all work into many submits, each with a wait of its own, as large models need them. */
  readonly submitBudget?: Target["submitBudget"];
  /** How the memory is used. */
  readonly memory?: MemoryOptions;
  /** Large ones make copies of what would else be shown in place. */
  readonly offsetAlignment?: number;
  readonly limits?: Target["limits"];
}

/** Loads a pipeline, lets a test use it, and frees everything. */
export async function withPipeline(
  use: (fixture: Fixture) => Promise<void>,
  options: FixtureOptions = {},
): Promise<void> {
  const { opening, folder, parts, memory = {}, maxBytes = Infinity, ...changes } = options;
  const { gpuDevice, target, adapter } = await openTestDevice(opening);
  const pacer = new Pacer({ groupSeconds: options.submitBudget && 0 });
  const device = new Device(gpuDevice, { ...target, ...changes }, adapter, maxBytes, pacer);
  try {
    using pipeline = await openPipeline(folder ?? FOLDER, parts);
    await pipeline.load(device, undefined, memory);
    await use({ device, pipeline, weightBytes: device.allocatedBytes });
  } finally {
    device.destroy();
  }
}
