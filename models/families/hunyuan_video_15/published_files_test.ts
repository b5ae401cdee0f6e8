/** HunyuanVideo 1.5's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import {
  hunyuanVideo15Decoder,
  hunyuanVideo15Encoder,
} from "../../autoencoders/hunyuan_video_15/coder.ts";
import { HUNYUAN_VIDEO_15_VAE_CONFIG } from "../../autoencoders/hunyuan_video_15/config.ts";
import { FrameHistory } from "../../autoencoders/wan/history.ts";
import { SIGLIP_VISION_CONFIG, siglipVision } from "../../image_encoders/siglip_vision.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";
import { umt5Encoder } from "../../text_encoders/umt5.ts";
import { HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG } from "./config.ts";
import { glyphTokens, imageTokens, promptStates } from "./context.ts";
import { HUNYUAN_VIDEO_15_FILES } from "./layouts.ts";
import { modulationTables } from "./modulation.ts";
import { hunyuanVideo15Transformer } from "./transformer.ts";

const DIM = 2048;
const { formats } = HUNYUAN_VIDEO_15_FILES;

const norm = (name: string, size: number): Shapes => ({
  [`${name}.weight`]: [size],
  [`${name}.bias`]: [size],
});
const gamma = (name: string, size: number): Shapes => ({ [`${name}.gamma`]: [size, 1, 1, 1] });
const conv = (name: string, rows: number, columns: number, side = 3): Shapes => ({
  [`${name}.weight`]: [rows, columns, side, side, side],
  [`${name}.bias`]: [rows],
});

/** What all files of the transformer share. */
const COMMON: Shapes = {
  ...conv("img_in.proj", DIM, 65, 1),
  "cond_type_embedding.weight": [3, DIM],
  ...layer("txt_in.input_embedder", DIM, 3584),
  ...norm("byt5_in.layernorm", 1472),
  ...layer("byt5_in.fc1", 2048, 1472),
  ...layer("byt5_in.fc2", 2048, 2048),
  ...layer("byt5_in.fc3", DIM, 2048),
  ...norm("vision_in.proj.0", 1152),
  ...layer("vision_in.proj.1", 1152, 1152),
  ...layer("vision_in.proj.3", DIM, 1152),
  ...norm("vision_in.proj.4", DIM),
  ...layer("final_layer.linear", 32, DIM),
  ...layer("final_layer.adaLN_modulation.1", 2 * DIM, DIM),
  ...repeated(2, (i) =>
    prefixed(`txt_in.individual_token_refiner.blocks.${i}.`, {
      ...norm("norm1", DIM),
      ...norm("norm2", DIM),
      ...layer("adaLN_modulation.1", 2 * DIM, DIM),
    })),
};

function embedder(name: string, first: string, second: string, width = 256): Shapes {
  return {
    ...layer(`${name}.${first}`, DIM, width),
    ...layer(`${name}.${second}`, DIM, DIM),
  };
}

/** All tensors of Tencent's files. Source: diffusers' `convert_hyvideo15_transformer_to_diffusers`. */
function original(isDistilled: boolean): Shapes {
  return {
    ...COMMON,
    ...embedder("time_in", "mlp.0", "mlp.2"),
    ...isDistilled ? embedder("time_r_in", "mlp.0", "mlp.2") : {},
    ...embedder("txt_in.t_embedder", "mlp.0", "mlp.2"),
    ...embedder("txt_in.c_embedder", "linear_1", "linear_2", 3584),
    ...repeated(2, (i) =>
      prefixed(`txt_in.individual_token_refiner.blocks.${i}.`, {
        ...layer("self_attn_qkv", 3 * DIM, DIM),
        ...layer("self_attn_proj", DIM, DIM),
        ...layer("mlp.fc1", 4 * DIM, DIM),
        ...layer("mlp.fc2", DIM, 4 * DIM),
      })),
    ...repeated(54, (i) =>
      Object.assign(
        {},
        ...["img", "txt"].map((stream) =>
          prefixed(`double_blocks.${i}.${stream}_`, {
            ...layer("mod.linear", 6 * DIM, DIM),
            ...layer("attn_q", DIM, DIM),
            ...layer("attn_k", DIM, DIM),
            ...layer("attn_v", DIM, DIM),
            "attn_q_norm.weight": [128],
            "attn_k_norm.weight": [128],
            ...layer("attn_proj", DIM, DIM),
            ...layer("mlp.fc1", 4 * DIM, DIM),
            ...layer("mlp.fc2", DIM, 4 * DIM),
          })
        ),
      )),
  };
}

/** All tensors of ComfyUI's files. Source: `hunyuan.hpp` of stable-diffusion.cpp. */
function comfy(isDistilled: boolean, scale: "scale" | "weight"): Shapes {
  return {
    ...COMMON,
    ...embedder("time_in", "in_layer", "out_layer"),
    ...isDistilled ? embedder("time_r_in", "in_layer", "out_layer") : {},
    ...embedder("txt_in.t_embedder", "in_layer", "out_layer"),
    ...embedder("txt_in.c_embedder", "in_layer", "out_layer", 3584),
    ...repeated(2, (i) =>
      prefixed(`txt_in.individual_token_refiner.blocks.${i}.`, {
        ...layer("self_attn.qkv", 3 * DIM, DIM),
        ...layer("self_attn.proj", DIM, DIM),
        ...layer("mlp.0", 4 * DIM, DIM),
        ...layer("mlp.2", DIM, 4 * DIM),
      })),
    ...repeated(54, (i) =>
      Object.assign(
        {},
        ...["img", "txt"].map((stream) =>
          prefixed(`double_blocks.${i}.${stream}_`, {
            ...layer("mod.lin", 6 * DIM, DIM),
            ...layer("attn.qkv", 3 * DIM, DIM),
            [`attn.norm.query_norm.${scale}`]: [128],
            [`attn.norm.key_norm.${scale}`]: [128],
            ...layer("attn.proj", DIM, DIM),
            ...layer("mlp.0", 4 * DIM, DIM),
            ...layer("mlp.2", DIM, 4 * DIM),
          })
        ),
      )),
  };
}

const FILES: readonly (readonly [name: string, isDistilled: boolean, shapes: Shapes])[] = [
  ["Tencent's", false, original(false)],
  ["Tencent's of few steps", true, original(true)],
  ["ComfyUI's", false, prefixed("model.diffusion_model.", comfy(false, "weight"))],
  ["ComfyUI's of few steps", true, comfy(true, "scale")],
];

for (const [name, isDistilled, shapes] of FILES) {
  Deno.test(`HunyuanVideo 1.5's transformer in ${name} file loads with nothing unmatched and nothing missing`, () => {
    const { graph, weights, json, input } = openPublished(shapes, formats);
    const config = HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(
      config,
      HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG.parse({ use_meanflow: isDistilled }),
    );
    const { root } = weights;
    hunyuanVideo15Transformer(graph, config, root, {
      ...promptStates(config, root, input([1, 5, 3584])),
      others: [
        imageTokens(config, root, input([1, 729, 1152])),
        glyphTokens(config, root, input([1, 4, 1472])),
      ],
      sample: input([1, 6, 32]),
      grid: { frames: 1, height: 2, width: 3 },
      ...modulationTables(graph, config, root, [1000, 500], isDistilled ? [500, 0] : undefined),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, []);
  });
}

/** All tensors of the autoencoder. Source: diffusers' `convert_hunyuan_video_15_vae_checkpoint_to_diffusers`. */
function autoencoder(): Shapes {
  const block = (name: string, from: number, to: number): Shapes => ({
    ...gamma(`${name}.norm1`, from),
    ...conv(`${name}.conv1.conv`, to, from),
    ...gamma(`${name}.norm2`, to),
    ...conv(`${name}.conv2.conv`, to, to),
  });
  const side = (name: string, list: string, sampler: string, count: number, widths: number[]) => ({
    ...block(`${name}.mid.block_1`, 1024, 1024),
    ...block(`${name}.mid.block_2`, 1024, 1024),
    ...gamma(`${name}.mid.attn_1.norm`, 1024),
    ...Object.assign(
      {},
      ...["q", "k", "v", "proj_out"].map((layer) =>
        conv(`${name}.mid.attn_1.${layer}`, 1024, 1024, 1)
      ),
    ),
    ...repeated(5, (level) => ({
      ...repeated(
        count,
        (i) => block(`${name}.${list}.${level}.block.${i}`, widths[level]!, widths[level]!),
      ),
      ...level < 4
        ? conv(
          `${name}.${list}.${level}.${sampler}.conv.conv`,
          name === "encoder"
            ? widths[level + 1]! / (level >= 2 ? 8 : 4)
            : widths[level + 1]! * (level < 2 ? 8 : 4),
          widths[level]!,
        )
        : {},
    })),
    ...gamma(`${name}.norm_out`, widths[4]!),
  });
  const widths = [128, 256, 512, 1024, 1024];
  return {
    ...conv("encoder.conv_in.conv", 128, 3),
    ...conv("encoder.conv_out.conv", 64, 1024),
    ...conv("decoder.conv_in.conv", 1024, 32),
    ...conv("decoder.conv_out.conv", 3, 128),
    ...side("encoder", "down", "downsample", 2, widths),
    ...side("decoder", "up", "upsample", 3, widths.toReversed()),
  };
}

Deno.test("HunyuanVideo 1.5's autoencoder under its original names loads with nothing unmatched and nothing missing", () => {
  const { graph, weights, json, input, className } = openPublished(autoencoder(), formats);
  assert.equal(className, "AutoencoderKLHunyuanVideo15");
  const config = HUNYUAN_VIDEO_15_VAE_CONFIG.parse(json);
  assert.deepEqual(config, HUNYUAN_VIDEO_15_VAE_CONFIG.parse({}));
  const stream = { place: "only" as const, history: new FrameHistory() };
  const { root } = weights;
  const pixels = hunyuanVideo15Decoder(graph, config, root, input([1, 1, 2, 2, 32]), stream);
  assert.deepEqual(pixels.shape, [1, 1, 32, 32, 3]);
  const moments = hunyuanVideo15Encoder(graph, config, root, input([1, 1, 32, 32, 3]), stream);
  assert.deepEqual(moments.shape, [1, 1, 2, 2, 64]);
  assert.deepEqual(weights.unused, []);
});

Deno.test("the glyph encoder and SigLIP's so400m tower are known in single files", () => {
  const glyphs = {
    "shared.weight": [1510, 1472],
    "encoder.final_layer_norm.weight": [1472],
    ...repeated(12, (i) =>
      prefixed(`encoder.block.${i}.layer.`, {
        ...i === 0 ? { "0.SelfAttention.relative_attention_bias.weight": [32, 6] } : {},
        "0.SelfAttention.q.weight": [384, 1472],
        "0.SelfAttention.k.weight": [384, 1472],
        "0.SelfAttention.v.weight": [384, 1472],
        "0.SelfAttention.o.weight": [1472, 384],
        "0.layer_norm.weight": [1472],
        "1.DenseReluDense.wi_0.weight": [3584, 1472],
        "1.DenseReluDense.wi_1.weight": [3584, 1472],
        "1.DenseReluDense.wo.weight": [1472, 3584],
        "1.layer_norm.weight": [1472],
      })),
  };
  const text = openPublished(glyphs, formats);
  const t5 = T5_CONFIG.parse(text.json);
  umt5Encoder(text.graph, t5, text.weights.root, { embeddings: text.input([1, 4, 1472]) });
  // The table of embeddings is read by rows.
  assert.deepEqual(text.weights.unused, ["shared.weight"]);
  const tower = prefixed("vision_model.", {
    "embeddings.patch_embedding.weight": [1152, 3, 14, 14],
    "embeddings.patch_embedding.bias": [1152],
    "embeddings.position_embedding.weight": [729, 1152],
    ...repeated(27, (i) =>
      prefixed(`encoder.layers.${i}.`, {
        ...norm("layer_norm1", 1152),
        ...norm("layer_norm2", 1152),
        ...layer("self_attn.q_proj", 1152, 1152),
        ...layer("self_attn.k_proj", 1152, 1152),
        ...layer("self_attn.v_proj", 1152, 1152),
        ...layer("self_attn.out_proj", 1152, 1152),
        ...layer("mlp.fc1", 4304, 1152),
        ...layer("mlp.fc2", 1152, 4304),
      })),
    ...norm("post_layernorm", 1152),
  });
  const { graph, weights, json, input, className } = openPublished(tower, formats);
  assert.equal(className, "SiglipVisionModel");
  const config = SIGLIP_VISION_CONFIG.parse(json);
  const states = siglipVision(graph, config, weights.root, input([1, 384, 384, 3]));
  assert.deepEqual(states.shape, [1, 729, 1152]);
  assert.deepEqual(weights.unused, []);
});

Deno.test("HUNYUAN_VIDEO_15_FILES knows size, task and distillation of single files by their names", () => {
  const of = (name: string, use_meanflow = false) =>
    HUNYUAN_VIDEO_15_FILES.defaults({ use_meanflow }, `/models/${name}.safetensors`);
  const [text, image, few] = [
    of("hunyuanvideo1.5_720p_t2v_fp16"),
    of("hunyuanvideo1.5_480p_i2v_cfg_distilled"),
    of("hunyuanvideo1.5_480p_step", true),
  ];
  assert.equal(text.className, "HunyuanVideo15Pipeline");
  assert.equal(text.scheduler["shift"], 9);
  assert.deepEqual(text.settings, { guider: { guidance_scale: 6 } });
  assert.equal(image.className, "HunyuanVideo15ImageToVideoPipeline");
  assert.equal(image.scheduler["shift"], 5);
  assert.deepEqual(image.settings, { guider: { guidance_scale: 1 } });
  assert.deepEqual(image.needs, ["text_encoder_2", "image_encoder"]);
  assert.equal(few.className, image.className);
  assert.equal(few.scheduler["shift"], 7);
  assert.equal(
    image.repositories[0],
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_i2v",
  );
});
