/** Qwen2.5-VL in single files: those of ComfyUI have the names of transformers, GGUF those of llama.cpp. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { Stated } from "../checkpoints/stated.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import { languageConfig, LLAMA_CPP_QWEN } from "./qwen3_format.ts";

/** Qwen2.5-VL of any size in single files: the language model, with the vision tower where the file has it. */
export const QWEN2_5_VL_FORMAT: ComponentFormat = {
  name: "a Qwen2.5-VL text encoder",
  component: "text_encoder",
  className: "Qwen2_5_VLForConditionalGeneration",
  architecture: "qwen2vl",
  namings: [
    {
      probes: [
        "model.language_model.layers.0.self_attn.q_proj.bias",
        "model.visual.blocks.0.attn.qkv.weight",
      ],
    },
    { probes: ["model.layers.0.self_attn.q_proj.bias", "visual.blocks.0.attn.qkv.weight"] },
    { probes: ["layers.0.self_attn.q_proj.bias", "embed_tokens.weight"] },
    { probes: ["blk.0.attn_q.bias", "token_embd.weight"], layout: LLAMA_CPP_QWEN },
  ],
  config,
};

/** Width of the heads of all published models, and of their vision towers. */
const HEAD_DIM = 128;
const VISION_HEAD_DIM = 80;

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const has = (name: string) => tensors.find(name) !== undefined;
  const wrapper = ["model.language_model.", "model.", ""]
    .find((prefix) => has(`${prefix}embed_tokens.weight`))!;
  const tower = ["model.visual.", "visual."].find((name) => has(`${name}merger.ln_q.weight`));
  const stated = new Stated(tensors, metadata);
  const heads = stated.number("attention.head_count");
  const queries = shapeOf(tensors, `${wrapper}layers.0.self_attn.q_proj.weight`, 2)[0]!;
  return {
    ...languageConfig(tensors, wrapper, heads ? queries / heads : HEAD_DIM, stated),
    vision_config: tower === undefined ? null : visionConfig(tensors, tower),
  };
}

/** What shapes do not tell are the defaults. */
function visionConfig(tensors: TensorSource, tower: string): JsonObject {
  const [dim, , , patchSize] = shapeOf(tensors, `${tower}patch_embed.proj.weight`, 5) as number[];
  return {
    depth: countLayers(tensors, `${tower}blocks.`),
    hidden_size: dim!,
    intermediate_size: shapeOf(tensors, `${tower}blocks.0.mlp.gate_proj.weight`, 2)[0]!,
    num_heads: Math.max(1, dim! / VISION_HEAD_DIM),
    patch_size: patchSize!,
    out_hidden_size: shapeOf(tensors, `${tower}merger.mlp.2.weight`, 2)[0]!,
  };
}
