/**
 * CLIP's text towers in single files: OpenAI's large one, and OpenCLIP's H and bigG, as transformers names them and as
 * OpenCLIP does. Source of the latter names: mlfoundations/open_clip `TextTransformer`; diffusers'
 * `convert_open_clip_checkpoint`.
 */
import type { JsonObject } from "../../hub/json_file.ts";
import type { TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import { transposed, without } from "../checkpoints/derived_view.ts";
import { viewLayout } from "../checkpoints/layout_view.ts";
import { type Layout, renamed } from "../layouts.ts";
import { clipTokenizer } from "../tokenizers/clip_vocabulary.ts";
import { CLIP_WRAPPER, TOKEN_EMBEDDING } from "./clip_text.ts";

const HEAD_DIM = 64;
/** Widths of OpenAI's large tower, and of OpenCLIP's. */
const [LARGE_DIM, HUGE_DIM, GIANT_DIM] = [768, 1024, 1280];

const LAYER = "encoder.layers.*";
const FUSED = `${LAYER}.self_attn.in_proj`;
const PROJECTION = "text_projection";

export const OPEN_CLIP: Layout = {
  name: "OpenCLIP",
  prefixes: [],
  entries: [
    renamed("token_embedding", "embeddings.token_embedding"),
    renamed("positional_embedding", "embeddings.position_embedding.weight"),
    ...["1", "2"].map((i) => renamed(`transformer.resblocks.*.ln_${i}`, `${LAYER}.layer_norm${i}`)),
    ...["weight", "bias"].map((parameter) => ({
      theirs: `transformer.resblocks.*.attn.in_proj_${parameter}`,
      ours: ["q", "k", "v"].map((name) => `${LAYER}.self_attn.${name}_proj.${parameter}`),
    })),
    // stable-diffusion.cpp, where it has transformers' names.
    { theirs: FUSED, ours: ["q", "k", "v"].map((name) => `${LAYER}.self_attn.${name}_proj`) },
    renamed("transformer.resblocks.*.attn.out_proj", `${LAYER}.self_attn.out_proj`),
    renamed("transformer.resblocks.*.mlp.c_fc", `${LAYER}.mlp.fc1`),
    renamed("transformer.resblocks.*.mlp.c_proj", `${LAYER}.mlp.fc2`),
    renamed("ln_final", "final_layer_norm"),
  ],
};

const OPEN_CLIP_PROBES = ["token_embedding.weight", "transformer.resblocks.0.attn.in_proj_weight"];
const SD_CPP_PROBES = [TOKEN_EMBEDDING, FUSED.replace("*", "0") + ".weight"];
const HF_PROBES = [TOKEN_EMBEDDING, "encoder.layers.0.self_attn.q_proj.weight"];

/** What stands before the names, such as `text_model.`, counts as a prefix. */
export const CLIP_TEXT_FORMAT: ComponentFormat = {
  name: "a CLIP text encoder",
  component: "text_encoder",
  className: "CLIPTextModel",
  namings: [{ probes: HF_PROBES }],
  fits: hasWidth(LARGE_DIM),
  tokenizer: () => clipTokenizer("end"),
  config,
};

/** Layers of OpenCLIP's H tower that Stable Diffusion 2 uses; whole towers have one more. */
const HUGE_LAYERS = 23;

export const OPEN_CLIP_H_FORMAT: ComponentFormat = {
  name: "an OpenCLIP H text encoder",
  component: "text_encoder",
  className: "CLIPTextModel",
  namings: [
    { probes: HF_PROBES, view: withoutLastLayer },
    ...[OPEN_CLIP_PROBES, SD_CPP_PROBES].map((probes) => ({
      probes,
      view: (tensors: TensorSource) => withoutLastLayer(openClipTensors(tensors)),
    })),
  ],
  fits: hasWidth(HUGE_DIM),
  tokenizer: () => clipTokenizer("zero"),
  config,
};

/** With its projection, which stands beside `text_model.` and not below it. */
export const OPEN_CLIP_G_FORMAT: ComponentFormat = {
  name: "an OpenCLIP bigG text encoder",
  component: "text_encoder_2",
  className: "CLIPTextModelWithProjection",
  namings: [
    { probes: [`${PROJECTION}.weight`, ...HF_PROBES.map((name) => `${CLIP_WRAPPER}.${name}`)] },
    { probes: [PROJECTION, ...OPEN_CLIP_PROBES], view: openClipTensors },
    { probes: [PROJECTION, ...SD_CPP_PROBES], view: openClipTensors },
  ],
  fits: hasWidth(GIANT_DIM),
  tokenizer: () => clipTokenizer("zero"),
  config,
};

/** OpenCLIP's names as transformers has them. Its projection is a matrix [hidden_size, projection_dim]. */
export function openClipTensors(tensors: TensorSource): TensorSource {
  return transposed(viewLayout(tensors, OPEN_CLIP), PROJECTION, `${PROJECTION}.weight`);
}

function withoutLastLayer(tensors: TensorSource): TensorSource {
  return without(
    tensors,
    (name) => Number(/^encoder\.layers\.(\d+)\./.exec(name)?.[1] ?? 0) >= HUGE_LAYERS,
  );
}

function hasWidth(width: number) {
  return (tensors: TensorSource) => shapeOf(modulesOf(tensors), TOKEN_EMBEDDING, 2)[1] === width;
}

function modulesOf(tensors: TensorSource): TensorSource {
  const wrapper = `${CLIP_WRAPPER}.`;
  return tensors.find(wrapper + TOKEN_EMBEDDING)
    ? viewLayout(tensors, undefined, wrapper)
    : tensors;
}

function config(tensors: TensorSource): JsonObject {
  const own = modulesOf(tensors);
  const [vocabSize, dim] = shapeOf(own, TOKEN_EMBEDDING, 2) as [number, number];
  const projection = tensors.find(`${PROJECTION}.weight`);
  return {
    model_type: "clip_text_model",
    vocab_size: vocabSize,
    hidden_size: dim,
    intermediate_size: shapeOf(own, "encoder.layers.0.mlp.fc1.weight", 2)[0]!,
    projection_dim: projection ? shapeOf(tensors, `${PROJECTION}.weight`, 2)[0]! : dim,
    num_hidden_layers: countLayers(own, "encoder.layers."),
    num_attention_heads: Math.max(1, dim / HEAD_DIM),
    max_position_embeddings: shapeOf(own, "embeddings.position_embedding.weight", 2)[0]!,
    // OpenCLIP trained its own with the exact one.
    hidden_act: dim === LARGE_DIM ? "quick_gelu" : "gelu",
  };
}
