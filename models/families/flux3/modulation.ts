/** Shifts, scales and gates, which all blocks of a kind share; they are made once for all steps. */
import {
  concat,
  elementwise,
  type Graph,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  OUT_MODULATION,
  SINGLE_MODULATION,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { roundedTimestep, timestepConstant } from "../../blocks/embeddings.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import type { Flux3TransformerConfig } from "./config.ts";

/** What tokens are of: the text, the result, and input images if there are any. */
export type Mode = "txt" | "image" | "image_cond";

/** In the order of the sequence. */
export function modesOf(hasReferences: boolean): readonly Mode[] {
  return hasReferences ? ["txt", "image", "image_cond"] : ["txt", "image"];
}

const KINDS = ["early_stream_modulations", "single_stream_modulations"] as const;

type BlockVectors = Vectors<typeof SINGLE_MODULATION>;

interface Modulation {
  /** By mode, of the blocks in which each mode is alone, and of those in which all are together. */
  readonly early: readonly BlockVectors[];
  readonly joint: readonly BlockVectors[];
  readonly out: Vectors<typeof OUT_MODULATION>;
}

/**
 * What the blocks need of timesteps, 0 to 1000: a row for each. Texts and input images are seen as at timestep 0. A model that
 * was distilled to few steps is told which timestep each step goes to, too.
 */
export function modulationTable(
  graph: Graph,
  config: Flux3TransformerConfig,
  weights: WeightScope,
  { timesteps }: Pick<Schedule, "timesteps">,
  modes: readonly Mode[],
): Tensor {
  const dim = hiddenSize(config);
  const embedded = (name: string, times: ArrayLike<number>) =>
    embeddingLayers(
      weights.scope(name),
      timestepConstant(graph, Array.from(times, roundedTimestep), config.timestep_channels),
      dim,
    );
  const target = config.flow_map
    ? embedded("target_timestep_embedder", [...timesteps.slice(1), 0])
    : undefined;
  const activated = (times: ArrayLike<number>) => {
    const temb = embedded("timestep_embedder", times);
    return target
      ? elementwise("act_silu(t + g)", { t: temb, g: target }, { name: "temb" })
      : elementwise("act_silu(t)", { t: temb }, { name: "temb" });
  };
  const [own, clean] = [activated(timesteps), activated(timesteps.map(() => 0))];
  const rows = SINGLE_MODULATION.length * dim;
  return concat(
    [
      ...KINDS.flatMap((kind) =>
        modes.map((mode) =>
          linearLayer(weights, `${kind}.${mode}.linear`, mode === "image" ? own : clean, rows)
        )
      ),
      linearLayer(weights, "norm_out.linear", own, OUT_MODULATION.length * dim),
    ],
    1,
    { name: "modulation" },
  );
}

/** The vectors of a row of {@linkcode modulationTable}. */
export function modulationVectors(row: Tensor, dim: number, modes: readonly Mode[]): Modulation {
  const take = takeVectors(row.reshape(row.size / dim, 1, dim));
  const ofModes = () => modes.map(() => take(SINGLE_MODULATION));
  return { early: ofModes(), joint: ofModes(), out: take(OUT_MODULATION) };
}
