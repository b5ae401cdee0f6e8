/**
 * The programs of a Wan pipeline for one kind of request, with the tensors they share. Kept between requests of the
 * same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import {
  type Device,
  type Graph,
  instantiate,
  type MemoryPlan,
  planMemory,
  type ProgramSet,
  type Resident,
  type RunControl,
  slice,
  type Target,
} from "../../../runtime/mod.ts";
import { FrameHistory } from "../../autoencoders/wan/history.ts";
import type { Schedule } from "../../schedulers/mod.ts";
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
import { SolverGraphs } from "./solver.ts";

/** See the file comment. */
export class WanSession {
  readonly shape: SessionShape;
  readonly tensors: SessionTensors;
  readonly plan: MemoryPlan;
  readonly solver: SolverGraphs;
  /** What the decoder's convolutions saw of earlier latent frames. */
  readonly history = new FrameHistory();
  /** What the encoder's convolutions saw of earlier frames of a given clip. */
  readonly clipHistory = new FrameHistory();
  /** What the keys and values of cross-attention were made from, once they are. */
  prompts: string | undefined;
  readonly #state: Resident[];
  #programs: ProgramSet | undefined;

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
    this.plan = planMemory(graphs);
    this.#state = [
      ...Object.values(this.tensors).flat() as Resident[],
      ...context.flatMap(({ key, value }) => [key, value]),
      ...this.solver.residents,
      ...history.residents,
      ...clipHistory.residents,
    ].filter((resident) => this.plan.residents.has(resident));
  }

  /** Bytes that the session takes beside the weights, the copy that results are read through included. */
  get byteLength(): number {
    const { latents, firstPixels, nextPixels } = this.tensors;
    const chunks = [latents.byteLength + firstPixels.byteLength];
    if (this.#state.includes(nextPixels)) chunks.push(nextPixels.byteLength);
    return this.#state.reduce(
      (sum, { byteLength }) => sum + byteLength,
      this.plan.workspaceBytes + Math.max(...chunks),
    );
  }

  /** The programs; only between `allocate` and `destroy`. */
  get programs(): ProgramSet {
    if (!this.#programs) throw new Error("Cannot run the session: it is not allocated");
    return this.#programs;
  }

  /**
   * Takes device memory and compiles. The weights must be on the device. When it fails, nothing stays allocated.
   *
   * @throws {OutOfMemoryError} when the memory does not suffice
   * @throws {DOMException} `AbortError` when cancelled
   */
  async allocate(device: Device, control: RunControl = {}): Promise<void> {
    try {
      await device.guarded(() => {
        for (const resident of this.#state) resident.allocate(device);
      });
      this.#programs = await instantiate(this.plan, device, control);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /** Gives the device memory back. */
  destroy(): void {
    this.#programs?.destroy();
    this.#programs = undefined;
    this.prompts = undefined;
    for (const resident of this.#state) resident.destroy();
  }
}
