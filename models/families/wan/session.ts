/**
 * The programs of a Wan pipeline for one kind of request, with the tensors they share. Kept between requests of the
 * same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import { type Graph, type Resident, slice, type Target } from "../../../runtime/mod.ts";
import { FrameHistory } from "../../autoencoders/wan/history.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { SessionPrograms } from "../../memory/session_programs.ts";
import type { Stage } from "../../memory/stage.ts";
import { componentsOf } from "../family_components.ts";
import { SolverGraphs } from "../solver.ts";
import type { WanComponents } from "./components.ts";
import { tokenGrid } from "./patches.ts";
import {
  type ContextResidents,
  traceBegin,
  traceClip,
  traceContext,
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
  readonly programs: SessionPrograms;

  /** Traces everything; plans and allocates nothing. */
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
    const text = { text: traceText(components, tensors, target) };
    const contextGraph = traceContext(components, shape, tensors, context, target);
    const denoise: Record<string, Graph> = {
      begin: traceBegin(components, shape, schedule, tensors, target),
      ...traceDenoise(components, grid, shape, tensors, context, target),
      ...this.solver.graphs,
    };
    if (shape.hasPreviews) {
      denoise["preview"] = tracePreview(components, grid, shape, tensors, outputs, target);
    }
    const decode = {
      finish: traceFinish(components, grid, shape, tensors, target),
      ...traceDecode(components, shape, tensors, history, target),
    };
    const stages: Stage[] = [
      { name: "text", graphs: text },
      { name: "context", graphs: { context: contextGraph } },
      { name: "denoise", graphs: denoise, repeats: schedule.timesteps.length },
      { name: "decode", graphs: decode, repeats: shape.latentFrames },
    ];
    if (shape.source === "picture") {
      stages.unshift({
        name: "encode",
        graphs: { encode: tracePicture(components, tensors, target) },
      });
    }
    if (shape.source === "clip") {
      const graphs = traceClip(components, shape, tensors, clipHistory, target);
      stages.unshift({ name: "encode", graphs, repeats: shape.latentFrames });
    }
    const residents = [
      ...Object.values(this.tensors).flat() as Resident[],
      ...context.flatMap(({ key, value }) => [key, value]),
      ...this.solver.residents,
      ...history.residents,
      ...clipHistory.residents,
    ];
    const { latents, firstPixels, nextPixels } = this.tensors;
    this.programs = new SessionPrograms({
      stages,
      components: componentsOf(components),
      residents,
      reads: [[tensors.text], [sample, firstPixels], [latents, firstPixels], [nextPixels]],
    });
  }
}
