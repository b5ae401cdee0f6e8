import type {
  DeviceTensor,
  Graph,
  InputSpec,
  Tensor,
  Weights,
  WeightScope,
} from "../../runtime/mod.ts";

/** A text encoder as pipelines run it: several prompts at once, each padded to the same number of rows. */
export interface TextEncoder {
  inputs(prompts: number, rows: number): Readonly<Record<string, InputSpec | DeviceTensor>>;
  /** The states that transformers see, [prompts, rows, width], or [prompts, width] where they sum a prompt up. */
  trace(inputs: Readonly<Record<string, Tensor>>, graph: Graph): Tensor;
  /**
   * What a call of the program writes, beside tensors of other programs: ids of every prompt, at most `rows` each.
   * `weights` are those of the ids, in encoders whose prompts have any; 1 by default.
   */
  values(
    tokens: readonly (readonly number[])[],
    rows: number,
    weights?: readonly (readonly number[])[],
  ): Readonly<Record<string, ArrayLike<number>>>;
}

export interface TextEncoderParts<Config> {
  readonly config: Config;
  readonly weights: Weights;
}

/** Refuses weights with more layers than their configuration says, which belong to another model. */
export function checkDepth(layers: WeightScope, count: number, sample: string): void {
  if (!layers.scope(count).has(sample)) return;
  throw new SyntaxError(
    `Cannot use the text encoder: its configuration says ${count} layers, and its weights have "${layers.path}.${count}"; ` +
      "fetch config.json and weights again",
  );
}

export function padded(
  tokens: readonly (readonly number[])[],
  rows: number,
  padId: number,
): number[][] {
  return tokens.map((own) => [...own, ...new Array<number>(rows - own.length).fill(padId)]);
}
