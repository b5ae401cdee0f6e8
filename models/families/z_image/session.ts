/**
 * The programs of a Z-Image pipeline for one kind of request, with the tensors they share. Kept between requests of the
 * same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import type { Graph, Resident, Target, Tensor } from "../../../runtime/mod.ts";
import { scaleFactor } from "../../autoencoders/kl/config.ts";
import { klDecoder } from "../../autoencoders/kl/decoder.ts";
import { klEncoder } from "../../autoencoders/kl/encoder.ts";
import { TiledCoder } from "../../autoencoders/tiled_coder.ts";
import { SessionPrograms } from "../../memory/session_programs.ts";
import type { Stage } from "../../memory/stage.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { componentsOf } from "../family_components.ts";
import { tracePreview } from "../previews.ts";
import { SolverGraphs } from "../solver.ts";
import type { ZImageComponents } from "./components.ts";
import {
  latentsOf,
  traceBegin,
  traceContext,
  traceDenoise,
  traceFinish,
  traceText,
} from "./session_graphs.ts";
import { declareTensors, type SessionShape, type SessionTensors } from "./session_tensors.ts";

/** See the file comment. */
export class ZImageSession {
  readonly shape: SessionShape;
  readonly tensors: SessionTensors;
  readonly solver: SolverGraphs;
  /** Of a given picture, where the session starts from one. */
  readonly encoder: TiledCoder | undefined;
  readonly decoder: TiledCoder;
  /** Of unfinished samples, where they are shown. */
  readonly previewer: TiledCoder | undefined;
  /** What `tensors.contexts` were made from, once they are. */
  prompts: string | undefined;
  readonly programs: SessionPrograms;

  /** Traces everything; plans and allocates nothing. */
  constructor(
    components: ZImageComponents,
    shape: SessionShape,
    schedule: Schedule,
    target: Target,
  ) {
    this.shape = shape;
    const tensors = this.tensors = declareTensors(components, shape, schedule.timesteps.length);
    const given = shape.limitsGuidance ? [tensors.guided] : tensors.outputs;
    const outputs = (graph: Graph) => given.map((output) => graph.use(output));
    this.solver = new SolverGraphs(schedule, { sample: tensors.sample, outputs }, target);
    this.encoder = shape.startsFromPicture ? this.#encoder(components, target) : undefined;
    this.decoder = this.#decoder("decode", components, target);
    this.previewer = shape.hasPreviews ? this.#decoder("show", components, target) : undefined;
    const denoise: Record<string, Graph> = {
      ...traceDenoise(components, shape, tensors, target),
      ...this.solver.graphs,
    };
    if (this.previewer) {
      const latents = (sample: Tensor) => latentsOf(components, shape, sample);
      denoise["preview"] = tracePreview(tensors, outputs, latents, target);
      Object.assign(denoise, this.previewer.graphs);
    }
    const decode = {
      finish: traceFinish(components, shape, tensors, target),
      ...this.decoder.graphs,
    };
    const stages: Stage[] = [
      { name: "text", graphs: { text: traceText(components, shape, tensors, target) } },
      { name: "context", graphs: { context: traceContext(components, tensors, target) } },
      // Apart from the steps: its layers are needed once.
      { name: "begin", graphs: { begin: traceBegin(components, shape, tensors, target) } },
      { name: "denoise", graphs: denoise, repeats: schedule.timesteps.length },
      { name: "decode", graphs: decode, repeats: this.decoder.tileCount },
    ];
    if (this.encoder) {
      const { graphs, tileCount: repeats } = this.encoder;
      stages.unshift({ name: "encode", graphs, repeats });
    }
    const coders = [this.encoder, this.decoder, this.previewer].filter((coder) =>
      coder !== undefined
    );
    this.programs = new SessionPrograms({
      stages,
      components: componentsOf(components),
      residents: [
        ...Object.values(tensors).flat() as Resident[],
        ...this.solver.residents,
        ...coders.flatMap((coder) => coder.residents),
      ],
      reads: [
        tensors.states,
        [tensors.sample],
        [tensors.latents],
        ...coders.flatMap((coder) => coder.results.map((result) => [result])),
      ],
    });
  }

  #encoder({ vae: { config, weights } }: ZImageComponents, target: Target): TiledCoder {
    const scale = scaleFactor(config);
    const { pixels } = this.tensors;
    return new TiledCoder(
      {
        name: "encode",
        side: this.shape.tileSide * scale,
        scale: 1 / scale,
        input: (graph) => graph.use(pixels),
        trace: (graph, part) => klEncoder(graph, config, weights.root, part),
      },
      [pixels.shape[0]!, pixels.shape[1]!],
      target,
    );
  }

  #decoder(
    name: string,
    { vae: { config, weights } }: ZImageComponents,
    target: Target,
  ): TiledCoder {
    const { decoded } = this.tensors;
    return new TiledCoder(
      {
        name,
        side: this.shape.tileSide,
        scale: scaleFactor(config),
        input: (graph) => graph.use(decoded),
        trace: (graph, part) => klDecoder(graph, config, weights.root, part),
      },
      [decoded.shape[0]!, decoded.shape[1]!],
      target,
    );
  }
}
