/** Sizes that transformers of two streams under diffusers' names tell by the shapes of their tensors, as FLUX's are. */
import type { TensorSource } from "../../runtime/mod.ts";
import { countModules, shapeOf } from "./component_format.ts";

/** What `config.json` says of them. */
interface DoubleStreamSizes {
  readonly in_channels: number;
  readonly num_layers: number;
  readonly num_single_layers: number;
  readonly attention_head_dim: number;
  readonly num_attention_heads: number;
  readonly joint_attention_dim: number;
}

/** Reads the sizes of a transformer off its tensors. */
export function doubleStreamSizes(tensors: TensorSource): DoubleStreamSizes {
  const [dim, channels] = shapeOf(tensors, "x_embedder.weight", 2) as [number, number];
  const headDim = shapeOf(tensors, "transformer_blocks.0.attn.norm_q.weight", 1)[0]!;
  return {
    in_channels: channels,
    num_layers: countModules(tensors, "transformer_blocks."),
    num_single_layers: countModules(tensors, "single_transformer_blocks."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    joint_attention_dim: shapeOf(tensors, "context_embedder.weight", 2)[1]!,
  };
}
