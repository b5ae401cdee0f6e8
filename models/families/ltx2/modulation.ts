/** How timesteps reach the blocks: adaLN, with tables of each block; made for all steps at once. */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { timestepConstant } from "../../blocks/embeddings.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import { type Ltx2TransformerConfig, type Modality, streamOf } from "./config.ts";

const EMBEDDING = 256;
/** Vectors of a block's attention to its own kind, of its feed-forward, and of its queries to the prompt. */
const BLOCK_VECTORS = [
  ...["shift_msa", "scale_msa", "gate_msa", "shift_mlp", "scale_mlp", "gate_mlp"] as const,
  ...["shift_text", "scale_text", "gate_text"] as const,
] as const;
/** Of video and sound where they see each other; scales come first here. */
const CROSS_VECTORS = ["scale_a2v", "shift_a2v", "scale_v2a", "shift_v2a"] as const;
const TEXT_VECTORS = ["shift", "scale"] as const;

export const MODALITIES = ["video", "audio"] as const;

/** Of a modality for all timesteps, [timesteps, rows · dim] each. */
interface ModalityTimes<Table> {
  readonly block: Table;
  /** The embedded timesteps, [timesteps, dim]. */
  readonly embedded: Table;
  readonly cross: Table;
  /** Of what it takes from the other modality. */
  readonly gate: Table;
  readonly text?: Table | undefined;
}

export type Ltx2Times<Table> = Readonly<Record<Modality, ModalityTimes<Table>>>;

/**
 * What the blocks need of timesteps, 0 to 1000; those of the tokens of a video may be followed by further ones. A sound that is
 * given is at its end all the time.
 */
export function ltx2Times(
  graph: Graph,
  config: Ltx2TransformerConfig,
  weights: WeightScope,
  timesteps: readonly number[],
  { more = [], hasSound = false }: {
    readonly more?: readonly number[];
    readonly hasSound?: boolean;
  } = {},
): Ltx2Times<Tensor> {
  const gateScale = config.cross_attn_timestep_scale_multiplier / config.timestep_scale_multiplier;
  const of = (modality: Modality): ModalityTimes<Tensor> => {
    const { dim, prefix } = streamOf(config, modality);
    const vectors = (name: string, rows: number, times: readonly number[], scale = 1) => {
      const own = weights.scope(name);
      const constant = timestepConstant(graph, times.map((t) => Math.fround(t * scale)), EMBEDDING);
      const embedded = embeddingLayers(own.scope("emb.timestep_embedder"), constant, dim);
      const activated = elementwise("act_silu(t)", { t: embedded });
      return { embedded, rows: linearLayer(own, "linear", activated, rows * dim) };
    };
    const isVideo = modality === "video";
    const ends = hasSound ? timesteps.map(() => 0) : timesteps;
    const [own, others] = isVideo ? [timesteps, ends] : [ends, timesteps];
    const all = isVideo ? [...own, ...more] : own;
    const { embedded, rows } = vectors(`${prefix}time_embed`, blockRows(config), all);
    const way = isVideo ? "a2v" : "v2a";
    const cross = `av_cross_attn_${modality}`;
    const hasText = config.cross_attn_mod && config.use_prompt_adaln_single;
    return {
      block: rows,
      embedded,
      cross: vectors(`${cross}_scale_shift`, CROSS_VECTORS.length, others).rows,
      gate: vectors(`${cross}_${way}_gate`, 1, others, gateScale).rows,
      text: hasText ? vectors(`${prefix}prompt_adaln`, TEXT_VECTORS.length, own).rows : undefined,
    };
  };
  return { video: of("video"), audio: of("audio") };
}

function blockRows({ cross_attn_mod }: Ltx2TransformerConfig): number {
  return cross_attn_mod ? BLOCK_VECTORS.length : BLOCK_VECTORS.length - 3;
}

type VectorOf<Name extends string> = (name: Name) => Tensor;

export interface BlockVectors {
  readonly own: VectorOf<typeof BLOCK_VECTORS[number]>;
  readonly cross: VectorOf<typeof CROSS_VECTORS[number]>;
  readonly crossGate: Tensor;
  /** Of the prompt's tokens, where they are modulated. */
  readonly text: VectorOf<typeof TEXT_VECTORS[number]> | undefined;
}

/** The timesteps of one step: `step` is the row of the tables, u32 [1]; `videoSteps` those of the tokens of a video that differ, u32 [n]. */
export class StepModulation {
  readonly #config: Ltx2TransformerConfig;
  readonly #weights: WeightScope;
  readonly #tokenTimes: Tensor | undefined;
  readonly #rows: Ltx2Times<Tensor>;

  /** `tokenTimes` tells which of `videoSteps` each token has, u32 [1, tokens]; nothing where all have the same. */
  constructor(
    config: Ltx2TransformerConfig,
    weights: WeightScope,
    times: Ltx2Times<Tensor>,
    { step, videoSteps = step, tokenTimes }: {
      readonly step: Tensor;
      readonly videoSteps?: Tensor | undefined;
      readonly tokenTimes?: Tensor | undefined;
    },
  ) {
    this.#config = config;
    this.#weights = weights;
    this.#tokenTimes = tokenTimes;
    const of = (modality: Modality): ModalityTimes<Tensor> => {
      const { dim } = streamOf(config, modality);
      const own = modality === "video" ? videoSteps : step;
      const taken = (table: Tensor, rows: Tensor) =>
        rearrange(gather(table, rows), "t (r d) -> r t d", { d: dim });
      const { block, embedded, cross, gate, text } = times[modality];
      return {
        block: taken(block, own),
        embedded: taken(embedded, own),
        cross: taken(cross, step),
        gate: taken(gate, step),
        text: text && taken(text, step),
      };
    };
    this.#rows = { video: of("video"), audio: of("audio") };
  }

  /** The vectors of a block, [1, 1, dim], or [1, tokens, dim] where tokens differ; scales are what is above 1. */
  block(index: number, modality: Modality): BlockVectors {
    const weights = this.#weights.scope("transformer_blocks").scope(index);
    const { prefix } = streamOf(this.#config, modality);
    const { block, cross, gate, text } = this.#rows[modality];
    const { graph } = block;
    const dim = block.dim(-1);
    const count = blockRows(this.#config);
    const table = weights.tensor(graph, `${prefix}scale_shift_table`, [count, dim]);
    const crossTable = weights.tensor(
      graph,
      `${modality}_a2v_cross_attn_scale_shift_table`,
      [CROSS_VECTORS.length + 1, dim],
    );
    const textTable = this.#config.cross_attn_mod
      ? weights.tensor(graph, `${prefix}prompt_scale_shift_table`, [TEXT_VECTORS.length, dim])
      : undefined;
    const last = CROSS_VECTORS.length;
    return {
      own: named(BLOCK_VECTORS, added(table, block), this.#tokenTimesOf(modality)),
      cross: named(CROSS_VECTORS, added(slice(crossTable, 0, 0, last), cross)),
      crossGate: added(slice(crossTable, 0, last, last + 1), gate).reshape(1, 1, dim),
      text: textTable && named(
        TEXT_VECTORS,
        text ? added(textTable, text) : textTable.reshape(TEXT_VECTORS.length, 1, dim),
      ),
    };
  }

  /** Of what comes after the last block. */
  out(modality: Modality): VectorOf<typeof TEXT_VECTORS[number]> {
    const { embedded } = this.#rows[modality];
    const { prefix } = streamOf(this.#config, modality);
    const name = `${prefix}scale_shift_table`;
    const table = this.#weights.tensor(embedded.graph, name, [2, embedded.dim(-1)]);
    const both = concat([embedded, embedded], 0);
    return named(TEXT_VECTORS, added(table, both), this.#tokenTimesOf(modality));
  }

  #tokenTimesOf(modality: Modality): Tensor | undefined {
    return modality === "video" ? this.#tokenTimes : undefined;
  }
}

/** Tables of a block, [rows, dim], added to those of timesteps, [rows, timesteps, dim]. */
function added(table: Tensor, times: Tensor): Tensor {
  const [rows, dim] = table.shape as [number, number];
  return elementwise("a + t", { a: table.reshape(rows, 1, dim), t: times }, { name: "modulation" });
}

function named<Name extends string>(
  names: readonly Name[],
  table: Tensor,
  tokenTimes?: Tensor,
): VectorOf<Name> {
  const dim = table.dim(-1);
  return (name) => {
    const row = names.indexOf(name);
    const vector = slice(table, 0, row, row + 1, { name });
    return tokenTimes
      ? gather(vector.reshape(-1, dim), tokenTimes, { name })
      : vector.reshape(1, 1, dim);
  };
}
