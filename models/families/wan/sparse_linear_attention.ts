/** TurboWan's attention: of each block of tokens to few others, and a linear one to all, which its weights project. */
import type { TensorSource } from "../../../runtime/mod.ts";

/** As TurboDiffusion, SGLang and FastVideo name the weights. */
const PROJECTION = /\.(?:attn_op\.local_attn|attn_impl)\.proj_l\./;

/** The transformer, refused where it was trained for attention that is not computed: it would draw something else without. */
export function withFullAttention(tensors: TensorSource): TensorSource {
  for (const name of tensors.names) {
    if (!PROJECTION.test(name)) continue;
    throw new TypeError(
      `Cannot use "${tensors.path}": it has "${name}", for sparse-linear attention (TurboWan), which is not there; ` +
        "use Wan itself, FastWan, or a LoRA of few steps",
    );
  }
  return tensors;
}
