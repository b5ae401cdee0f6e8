/**
 * From the text encoder to the transformer: all states of a prompt, normalised and projected; then a small transformer for each of
 * video and sound, in which learned registers fill the prompt up.
 * Source: diffusers `LTX2TextConnectors`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import { ltx2Attention, ltx2FeedForward } from "./attention.ts";
import { type Ltx2ConnectorsConfig, type Modality, projectedWidth } from "./config.ts";
import { textPositions } from "./positions.ts";
import type { Both } from "./transformer.ts";

const EPS = 1e-6;
/** Rows of a prompt that are projected at a time: all states of many are copied several times on the way. */
const ROWS_AT_ONCE = 128;
/** What LTX-2.0 stretches states to, from the least to the largest. */
const RANGE = 8;
/** What takes part in no maximum and no minimum. */
const FAR = 1e30;

/**
 * States of one prompt, layer by layer, [1, rows, caption_channels] each, projected: of LTX-2.0 one for both, [1, rows,
 * caption_channels]; of LTX-2.3 that of the video and that of the sound side by side. `mask` is 1 for rows that are tokens,
 * [1, rows, 1]; what comes of others is of no use.
 */
export function ltx2Projection(
  config: Ltx2ConnectorsConfig,
  weights: WeightScope,
  states: readonly Tensor[],
  mask: Tensor,
  { rowsAtOnce = ROWS_AT_ONCE }: { readonly rowsAtOnce?: number } = {},
): Tensor {
  const layers = states.length;
  // The features of a channel lie side by side, layer by layer.
  const sideBySide = (all: readonly Tensor[]) =>
    rearrange(concat(all, -1), "1 t (l d) -> 1 t (d l)", { l: layers });
  if (!config.per_modality_projections) {
    const features = stretched(sideBySide(states), mask, layers);
    return linearLayer(weights, "text_proj_in", features, config.caption_channels);
  }
  const projected = (x: Tensor, modality: Modality) => {
    const width = projectedWidth(config, modality);
    const name = `${modality}_text_proj_in`;
    const y = linearLayer(weights, name, x, width);
    const scalars = { scale: Math.sqrt(width / config.caption_channels) };
    // The features are scaled, and not the bias.
    if (!weights.scope(name).has("bias")) return elementwise("scale * y", { y }, { scalars });
    const bias = weights.tensor(y.graph, `${name}.bias`, [width]);
    return elementwise("scale * (y - b) + b", { y, b: bias }, { scalars });
  };
  const rows = mask.dim(1);
  const parts = Array.from({ length: Math.ceil(rows / rowsAtOnce) }, (_, i) => {
    const [start, end] = [i * rowsAtOnce, Math.min(rows, (i + 1) * rowsAtOnce)];
    const normed = sideBySide(
      states.map((state) => rmsNorm(slice(state, 1, start, end), { eps: EPS })),
    );
    return concat([projected(normed, "video"), projected(normed, "audio")], -1);
  });
  return concat(parts, 1);
}

/** Every layer's states less their mean, over their range, of all channels of all tokens: [1, tokens, channels · layers]. */
function stretched(x: Tensor, mask: Tensor, layers: number): Tensor {
  const [, rows, features] = x.shape as [number, number, number];
  const folded = (input: Tensor, expression: string) =>
    fold(fold(input.reshape(rows, features), expression).reshape(-1, layers), expression)
      .reshape(1, 1, 1, layers);
  const scalars = { far: FAR };
  const least = folded(
    elementwise("x * m + far * (1.0 - m)", { x, m: mask }, { scalars }),
    "min(a, b)",
  );
  const most = folded(
    elementwise("x * m - far * (1.0 - m)", { x, m: mask }, { scalars }),
    "max(a, b)",
  );
  const sum = folded(elementwise("x * m", { x, m: mask }), "a + b");
  const count = fold(mask.reshape(rows, 1), "a + b").reshape(1, 1, 1, 1);
  const channels = features / layers;
  return elementwise("range * (x - sum / (channels * n + eps)) / (most - least + eps)", {
    x: x.reshape(1, rows, channels, layers),
    ...{ sum, n: count, most, least },
  }, { scalars: { channels, range: RANGE, eps: EPS } }).reshape(1, rows, features);
}

/** [rows, n] to [1, n], the halves on each other by an expression of `a` and `b`. */
function fold(x: Tensor, expression: string): Tensor {
  let y = x;
  while (y.dim(0) > 1) {
    const [half, isOdd] = [Math.floor(y.dim(0) / 2), y.dim(0) % 2 === 1];
    const [a, b] = [slice(y, 0, 0, half), slice(y, 0, half, 2 * half)];
    const joined = elementwise(expression, { a, b }, { name: "fold" });
    y = isOdd ? concat([joined, slice(y, 0, 2 * half)], 0) : joined;
  }
  return y;
}

/** Where the rows of a prompt that is filled up with registers come from: its own, then the registers in turn by their place. */
export function connectorSources(
  length: number,
  rows: number,
  tokens: number,
  registers: number,
): number[] {
  return Array.from({ length: tokens }, (_, i) => (i < length ? i : rows + i % registers));
}

/**
 * A prompt as the transformer takes it, [1, tokens, width] for each modality, of {@linkcode ltx2Projection}; `sources` are
 * {@linkcode connectorSources}, u32 [1, tokens], by modality.
 */
export function ltx2Connectors(
  config: Ltx2ConnectorsConfig,
  weights: WeightScope,
  projected: Tensor,
  sources: Both<Tensor>,
): Both<Tensor> {
  const widths = { video: projectedWidth(config, "video"), audio: projectedWidth(config, "audio") };
  const own = (modality: Modality): Tensor => {
    if (!config.per_modality_projections) return projected;
    const first = modality === "video" ? 0 : widths.video;
    return slice(projected, 2, first, first + widths[modality]);
  };
  const connected = (modality: Modality): Tensor => {
    const { graph } = projected;
    const dim = widths[modality];
    const scope = weights.scope(`${modality}_connector`);
    const registers = scope.tensor(
      graph,
      "learnable_registers",
      [config[`${modality}_connector_num_learnable_registers`], dim],
    );
    const text = own(modality);
    const rows = concat([text.reshape(-1, dim), gather(registers, all(registers))], 0);
    let x = gather(rows, sources[modality], { name: "filled up" });
    const { cos, sin } = textPositions(
      ...[x.dim(1), dim, config.connector_rope_base_seq_len, config.rope_theta] as const,
    );
    const shape = [x.dim(1), dim / 2];
    const rotary = {
      cos: graph.constant(`${modality} cos`, shape, "f32", cos),
      sin: graph.constant(`${modality} sin`, shape, "f32", sin),
    };
    for (let layer = 0; layer < config[`${modality}_connector_num_layers`]; layer++) {
      const block = scope.scope("transformer_blocks").scope(layer);
      x = graph.scope(`${modality}_connector.${layer}`, () => {
        const y = ltx2Attention(block.scope("attn1"), rmsNorm(x, { eps: EPS }), undefined, {
          heads: config[`${modality}_connector_num_attention_heads`],
          dim,
          ropeType: config.rope_type,
          rotary,
          isGated: config[`${modality}_gated_attn`],
          residual: x,
        });
        return ltx2FeedForward(block.scope("ff"), rmsNorm(y, { eps: EPS }), { residual: y });
      });
    }
    return rmsNorm(x, { eps: EPS, name: `${modality} prompt` });
  };
  return { video: connected("video"), audio: connected("audio") };
}

/** All rows of a table, which may be stored in any format. */
function all({ graph, shape: [rows] }: Tensor): Tensor {
  const values = Uint32Array.from({ length: rows! }, (_, i) => i);
  return graph.constant(`rows ${rows}`, [rows!], "u32", values);
}
