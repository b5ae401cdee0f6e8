/**
 * The programs of a FLUX.2 pipeline for one kind of request, with the tensors they share. Kept between requests of the
 * same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import type { Graph, Resident, Target, Tensor } from "../../../runtime/mod.ts";
import { scaleFactor } from "../../autoencoders/kl/config.ts";
import { klDecoder } from "../../autoencoders/kl/decoder.ts";
import { klEncoder } from "../../autoencoders/kl/encoder.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { TiledCoder } from "../../autoencoders/tiled_coder.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { SessionPrograms } from "../../memory/session_programs.ts";
import type { Stage } from "../../memory/stage.ts";
import { componentsOf } from "../family_components.ts";
import { tracePreview } from "../previews.ts";
import { SolverGraphs } from "../solver.ts";
import type { Flux2Components } from "./components.ts";
import {
  latentsOf,
  traceBegin,
  traceDenoise,
  traceFinish,
  traceReferences,
  traceText,
} from "./session_graphs.ts";
import {
  declareTensors,
  distinctGrids,
  type SessionShape,
  type SessionTensors,
} from "./session_tensors.ts";

/** See the file comment. */
export class Flux2Session {
  readonly shape: SessionShape;
  readonly tensors: SessionTensors;
  readonly solver: SolverGraphs;
  /** Per size of given pictures, as `tensors.pixels`. */
  readonly encoders: readonly TiledCoder[];
  readonly decoder: TiledCoder;
  /** What the states of the text encoder were made from, once they are. */
  prompts: string | undefined;
  readonly programs: SessionPrograms;

  /** Traces everything; plans and allocates nothing. */
  constructor(
    components: Flux2Components,
    shape: SessionShape,
    schedule: Schedule,
    target: Target,
  ) {
    this.shape = shape;
    this.tensors = declareTensors(components, shape, schedule.timesteps.length);
    const { sample, velocities, latents, states } = this.tensors;
    const outputs = (graph: Graph) => velocities.map((velocity) => graph.use(velocity));
    this.solver = new SolverGraphs(schedule, { sample, outputs }, target);
    this.encoders = this.#encoders(components, target);
    this.decoder = this.#decoder(components, target);
    const denoise: Record<string, Graph> = {
      ...traceDenoise(components, shape, this.tensors, target),
      ...this.solver.graphs,
    };
    if (shape.hasPreviews) {
      const decoded = (sample: Tensor) => latentsOf(components, shape, sample);
      denoise["preview"] = tracePreview(this.tensors, outputs, decoded, target);
      Object.assign(denoise, this.decoder.graphs);
    }
    const stages: Stage[] = [
      { name: "text", graphs: { text: traceText(components, this.tensors, target) } },
      // Apart from the steps: its layers are needed once.
      { name: "begin", graphs: { begin: traceBegin(components, this.tensors, target) } },
      { name: "denoise", graphs: denoise, repeats: schedule.timesteps.length },
      {
        name: "decode",
        graphs: {
          finish: traceFinish(components, shape, this.tensors, target),
          ...this.decoder.graphs,
        },
        repeats: this.decoder.tileCount,
      },
    ];
    if (this.encoders.length > 0) {
      const graphs: Record<string, Graph> = {
        references: traceReferences(components, this.tensors, target),
      };
      for (const encoder of this.encoders) Object.assign(graphs, encoder.graphs);
      const counts = this.encoders.map(({ tileCount }) => tileCount);
      stages.unshift({ name: "encode", graphs, repeats: Math.max(...counts) });
    }
    const coders = [this.decoder, ...this.encoders];
    this.programs = new SessionPrograms({
      stages,
      components: componentsOf(components),
      residents: [
        ...Object.values(this.tensors).flat() as Resident[],
        ...this.solver.residents,
        ...coders.flatMap((coder) => coder.residents),
      ],
      reads: [
        [states],
        [sample],
        [latents],
        ...coders.flatMap((coder) => coder.results.map((result) => [result])),
      ],
    });
  }

  #encoders({ vae: { config, weights } }: Flux2Components, target: Target): TiledCoder[] {
    const scale = scaleFactor(config);
    return distinctGrids(this.shape).map(({ rows, columns }, i) => {
      const pixels = this.tensors.pixels[i]!;
      const sides = [rows, columns].map((side) => side * PACKED_SIDE * scale) as [number, number];
      return new TiledCoder(
        {
          name: `encode ${columns}x${rows}`,
          side: this.shape.tileSide * scale,
          scale: 1 / scale,
          input: (graph) => graph.use(pixels),
          trace: (graph, part) => klEncoder(graph, config, weights.root, part),
        },
        sides,
        target,
      );
    });
  }

  #decoder({ vae: { config, weights } }: Flux2Components, target: Target): TiledCoder {
    const { grid: { rows, columns }, tileSide } = this.shape;
    const { decoded } = this.tensors;
    return new TiledCoder(
      {
        name: "decode",
        side: tileSide,
        scale: scaleFactor(config),
        input: (graph) => graph.use(decoded),
        trace: (graph, part) => klDecoder(graph, config, weights.root, part),
      },
      [rows * PACKED_SIDE, columns * PACKED_SIDE],
      target,
    );
  }
}
