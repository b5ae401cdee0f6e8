/** Requests that several GPUs make together, in one thread: each rank has a device of its own. */
import {
  openPipeline,
  type Pipeline,
  type PipelineControl,
  type PipelineRequest,
  type PipelineResult,
  type Ranks,
} from "../../models/mod.ts";
import {
  type Device,
  type DeviceOptions,
  failTeam,
  resetTeam,
  SharedTeam,
  type TeamMemory,
  teamMemory,
} from "../../runtime/mod.ts";
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

/**
 * Opens a model on every rank, lets a test use it, and frees everything.
 *
 * @param sizes of the teams that each rank is in: with several, the ranks are those of a grid
 */
export async function withTeam(
  folder: string,
  sizes: number | readonly number[],
  ranksOf: (...teams: SharedTeam[]) => Ranks,
  use: (team: TestTeam) => Promise<void>,
  openings: readonly DeviceOptions[] = [],
): Promise<void> {
  const { memories, seats } = gridOf([sizes].flat());
  const devices: Device[] = [];
  const pipelines: Pipeline[] = [];
  try {
    for (const [rank, teams] of seats.entries()) {
      const device = await openTestDevice(openings[rank]);
      devices.push(device);
      const pipeline = await openPipeline(folder, {}, ranksOf(...teams));
      pipelines.push(pipeline);
      await pipeline.load(device);
    }
    await use({
      pipelines,
      generate: (request, controls = []) => {
        memories.forEach(resetTeam);
        return Promise.all(pipelines.map((pipeline, rank) => {
          for (const team of seats[rank]!) team.begin();
          // As the group does it.
          return pipeline.generate(request, controls[rank]).catch((error) => {
            memories.forEach(failTeam);
            throw error;
          }).finally(() => seats[rank]!.forEach((team) => team.end()));
        }));
      },
    });
  } finally {
    for (const pipeline of pipelines) pipeline[Symbol.dispose]();
    for (const device of devices) device.destroy();
  }
}

/** A grid of ranks: those that differ in one place alone are a team. */
function gridOf(sizes: readonly number[]): { memories: TeamMemory[]; seats: SharedTeam[][] } {
  const memories = new Map<string, TeamMemory>();
  const places = sizes.reduce<number[][]>(
    (all, size) => all.flatMap((place) => Array.from({ length: size }, (_, i) => [...place, i])),
    [[]],
  );
  const seats = places.map((place) =>
    place.map((rank, axis) => {
      const key = `${axis}: ${place.with(axis, 0)}`;
      const memory = memories.get(key) ?? teamMemory(sizes[axis]!, CHUNK_BYTES);
      memories.set(key, memory);
      return new SharedTeam(memory, rank, false);
    })
  );
  return { memories: [...memories.values()], seats };
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
