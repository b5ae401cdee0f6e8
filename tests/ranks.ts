/**
 * Requests that several GPUs make together, in one thread: each rank has a device of its own.
 *
 * @module
 */
import {
  openPipeline,
  type Pipeline,
  type PipelineControl,
  type PipelineRequest,
  type PipelineResult,
  type Ranks,
} from "../models/mod.ts";
import {
  type Device,
  type DeviceOptions,
  failTeam,
  resetTeam,
  SharedTeam,
  teamMemory,
} from "../runtime/mod.ts";
import { openTestDevice } from "./model_run.ts";

/** Chunks that small tensors fill several of. */
const CHUNK_BYTES = 1000;

/** Pipelines of the ranks of a team. */
export interface TestTeam {
  readonly pipelines: readonly Pipeline[];
  /** The request on all of them; the first has the result. */
  generate(
    request: PipelineRequest,
    controls?: readonly PipelineControl[],
  ): Promise<PipelineResult[]>;
}

/** Opens a model on every rank of a team, lets a test use it, and frees everything. */
export async function withTeam(
  folder: string,
  size: number,
  ranksOf: (team: SharedTeam) => Ranks,
  use: (team: TestTeam) => Promise<void>,
  openings: readonly DeviceOptions[] = [],
): Promise<void> {
  const memory = teamMemory(size, CHUNK_BYTES);
  const teams = Array.from({ length: size }, (_, rank) => new SharedTeam(memory, rank, false));
  const devices: Device[] = [];
  const pipelines: Pipeline[] = [];
  try {
    for (const [rank, team] of teams.entries()) {
      const device = await openTestDevice(openings[rank]);
      devices.push(device);
      const pipeline = await openPipeline(folder, {}, ranksOf(team));
      pipelines.push(pipeline);
      await pipeline.load(device);
    }
    await use({
      pipelines,
      generate: (request, controls = []) => {
        resetTeam(memory);
        return Promise.all(pipelines.map((pipeline, rank) => {
          teams[rank]!.begin();
          // As the group does it.
          return pipeline.generate(request, controls[rank]).catch((error) => {
            failTeam(memory);
            throw error;
          });
        }));
      },
    });
  } finally {
    for (const pipeline of pipelines) pipeline[Symbol.dispose]();
    for (const device of devices) device.destroy();
  }
}

/** A request on one GPU. */
export async function generateAlone(
  folder: string,
  requests: readonly PipelineRequest[],
  opening?: DeviceOptions,
): Promise<PipelineResult[]> {
  const device = await openTestDevice(opening);
  try {
    using pipeline = await openPipeline(folder);
    await pipeline.load(device);
    const results: PipelineResult[] = [];
    for (const request of requests) results.push(await pipeline.generate(request));
    return results;
  } finally {
    device.destroy();
  }
}
