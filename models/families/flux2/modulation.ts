/**
 * How the timestep reaches the blocks: shifts, scales and gates that all blocks of a kind share, so that they are made
 * once for all steps.
 */
import { concat, elementwise, slice, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { linearLayer } from "../../layers.ts";

/** Vectors of a stream of a double block, in the order of the rows of its modulation layer. */
const DOUBLE = [
  "shift_msa",
  "scale_msa",
  "gate_msa",
  "shift_mlp",
  "scale_mlp",
  "gate_mlp",
] as const;
/** Of a single block. */
const SINGLE = ["shift", "scale", "gate"] as const;
/** Of the last norm. */
const OUT = ["scale", "shift"] as const;

/** Modulation layers, and the vectors that each gives. */
const LAYERS = [
  { layer: "double_stream_modulation_img.linear", names: DOUBLE },
  { layer: "double_stream_modulation_txt.linear", names: DOUBLE },
  { layer: "single_stream_modulation.linear", names: SINGLE },
  { layer: "norm_out.linear", names: OUT },
] as const;

/** Vectors of a timestep. */
export const MODULATION_ROWS = LAYERS.reduce((sum, { names }) => sum + names.length, 0);

/** Vectors by name, each [1, 1, dim]. */
type Vectors<Names extends readonly string[]> = Readonly<Record<Names[number], Tensor>>;

/** What the blocks take of one timestep. */
export interface Modulation {
  readonly image: Vectors<typeof DOUBLE>;
  readonly text: Vectors<typeof DOUBLE>;
  readonly single: Vectors<typeof SINGLE>;
  readonly out: Vectors<typeof OUT>;
}

/**
 * Everything that the blocks need of timesteps; it depends on nothing else.
 *
 * @param embedding sinusoidal, [timesteps, channels]
 * @param guidance likewise of the guidance scale, [1, channels], for models that were trained with it
 * @returns [timesteps, {@linkcode MODULATION_ROWS} · dim]
 */
export function modulationTable(
  weights: WeightScope,
  embedding: Tensor,
  dim: number,
  guidance?: Tensor,
): Tensor {
  const embedder = weights.scope("time_guidance_embed");
  let temb = embed(embedder.scope("timestep_embedder"), embedding, dim);
  if (guidance) {
    const added = embed(embedder.scope("guidance_embedder"), guidance, dim);
    temb = elementwise("t + g", { t: temb, g: added }, { name: "temb" });
  }
  const activated = elementwise("act_silu(t)", { t: temb });
  return concat(
    LAYERS.map(({ layer, names }) => linearLayer(weights, layer, activated, names.length * dim)),
    1,
    { name: "modulation" },
  );
}

function embed(weights: WeightScope, embedding: Tensor, dim: number): Tensor {
  const hidden = linearLayer(weights, "linear_1", embedding, dim, { activation: "silu" });
  return linearLayer(weights, "linear_2", hidden, dim);
}

/**
 * The vectors of one timestep.
 *
 * @param row of {@linkcode modulationTable}, any shape
 */
export function modulationVectors(row: Tensor, dim: number): Modulation {
  const table = row.reshape(MODULATION_ROWS, 1, dim);
  let first = 0;
  const take = <Names extends readonly string[]>(names: Names): Vectors<Names> => {
    const start = first;
    first += names.length;
    const entries = names.map((name, i) =>
      [name, slice(table, 0, start + i, start + i + 1, { name })] as const
    );
    return Object.fromEntries(entries) as Vectors<Names>;
  };
  const [image, text, single, out] = LAYERS.map(({ names }) => names) as unknown as [
    typeof DOUBLE,
    typeof DOUBLE,
    typeof SINGLE,
    typeof OUT,
  ];
  return { image: take(image), text: take(text), single: take(single), out: take(out) };
}
