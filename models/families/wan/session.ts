/**
 * The programs of a Wan pipeline for one kind of request, with the tensors they share. Kept between requests of the
 * same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import {
  type Device,
  type Graph,
  type MemoryPlan,
  type ProgramSet,
  type Resident,
  type RunControl,
  slice,
  type Target,
} from "../../../runtime/mod.ts";
import { FrameHistory } from "../../autoencoders/wan/history.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { SessionPrograms } from "../session_programs.ts";
import { SolverGraphs } from "../solver.ts";
import type { WanComponents } from "./components.ts";
import { tokenGrid } from "./patches.ts";
import {
  type ContextResidents,
  traceBegin,
  traceClip,
  traceDecode,
  traceDenoise,
  traceFinish,
  tracePicture,
  tracePreview,
  traceText,
} from "./session_graphs.ts";
import { declareTensors, type SessionShape, type SessionTensors } from "./session_tensors.ts";

/** See the file comment. */
export class WanSession {
  readonly shape: SessionShape;
  readonly tensors: SessionTensors;
  readonly solver: SolverGraphs;
  /** What the decoder's convolutions saw of earlier latent frames. */
  readonly history = new FrameHistory();
  /** What the encoder's convolutions saw of earlier frames of a given clip. */
  readonly clipHistory = new FrameHistory();
  /** What the keys and values of cross-attention were made from, once they are. */
  prompts: string | undefined;
  readonly #programs: SessionPrograms;

  /** Traces and plans everything; allocates nothing. */
  constructor(components: WanComponents, shape: SessionShape, schedule: Schedule, target: Target) {
    this.shape = shape;
    const { config } = components.transformer;
    const grid = tokenGrid(config, [shape.latentFrames, shape.height, shape.width]);
    this.tensors = declareTensors(components, shape, grid, schedule.timesteps.length);
    const { sample, velocities } = this.tensors;
    const outputs = (graph: Graph) =>
      velocities.flatMap((velocity) => {
        const x = graph.use(velocity);
        return Array.from({ length: x.dim(0) }, (_, i) => slice(x, 0, i, i + 1));
      });
    this.solver = new SolverGraphs(schedule, { sample, outputs }, target);
    const context: ContextResidents[] = [];
    const { tensors, history, clipHistory } = this;
    const graphs: Record<string, Graph> = {
      text: traceText(components, shape, tensors, context, target),
      begin: traceBegin(components, shape, schedule, tensors, target),
      ...traceDenoise(components, grid, shape, tensors, context, target),
      ...this.solver.graphs,
      finish: traceFinish(components, grid, shape, tensors, target),
      ...traceDecode(components, shape, tensors, history, target),
    };
    if (shape.source === "picture") graphs["encode"] = tracePicture(components, tensors, target);
    if (shape.source === "clip") {
      Object.assign(graphs, traceClip(components, shape, tensors, clipHistory, target));
    }
    if (shape.hasPreviews) {
      graphs["preview"] = tracePreview(components, grid, shape, tensors, outputs, target);
    }
    const residents = [
      ...Object.values(this.tensors).flat() as Resident[],
      ...context.flatMap(({ key, value }) => [key, value]),
      ...this.solver.residents,
      ...history.residents,
      ...clipHistory.residents,
    ];
    const { latents, firstPixels, nextPixels } = this.tensors;
    this.#programs = new SessionPrograms(graphs, residents, [[latents, firstPixels], [nextPixels]]);
  }

  /** Bytes that the session takes beside the weights; see {@linkcode SessionPrograms.byteLength}. */
  get byteLength(): number {
    return this.#programs.byteLength;
  }

  /** What the programs take, known before anything is allocated. */
  get plan(): MemoryPlan {
    return this.#programs.plan;
  }

  /** The programs; only between `allocate` and `destroy`. */
  get programs(): ProgramSet {
    return this.#programs.set;
  }

  /** Takes device memory and compiles; see {@linkcode SessionPrograms.allocate}. */
  async allocate(device: Device, control: RunControl = {}): Promise<void> {
    await this.#programs.allocate(device, control);
  }

  /** Gives the device memory back. */
  destroy(): void {
    this.#programs.destroy();
    this.prompts = undefined;
  }
}
