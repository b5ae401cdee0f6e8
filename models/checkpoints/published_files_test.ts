/** Files as people have them: names and shapes of published checkpoints, without their numbers. */
import assert from "node:assert/strict";
import { prefixed, repeated } from "../../tests/support/published_shapes.ts";
import { type MemoryTensor, memoryTensors } from "../../tests/support/memory_tensors.ts";
import { FLUX2_VAE_CONFIG, KL_VAE_CONFIG } from "../autoencoders/kl/config.ts";
import { QWEN_IMAGE_21_VAE_CONFIG, WAN_VAE_CONFIG } from "../autoencoders/wan/config.ts";
import { ANIMA_CONDITIONER_CONFIG, ANIMA_TRANSFORMER_CONFIG } from "../families/anima/config.ts";
import { ANIMA_FILES } from "../families/anima/layouts.ts";
import { AURAFLOW_TRANSFORMER_CONFIG } from "../families/auraflow/config.ts";
import { AURAFLOW_FILES } from "../families/auraflow/layouts.ts";
import { CHROMA_TRANSFORMER_CONFIG } from "../families/chroma/config.ts";
import { CHROMA_FILES } from "../families/chroma/layouts.ts";
import { ERNIE_IMAGE_TRANSFORMER_CONFIG } from "../families/ernie_image/config.ts";
import { ERNIE_IMAGE_FILES } from "../families/ernie_image/layouts.ts";
import { FLUX1_TRANSFORMER_CONFIG } from "../families/flux1/config.ts";
import { FLUX1_FILES } from "../families/flux1/layouts.ts";
import { FLUX2_TRANSFORMER_CONFIG } from "../families/flux2/config.ts";
import { FLUX2_FILES } from "../families/flux2/layouts.ts";
import { HUNYUAN_VIDEO_15_VAE_CONFIG } from "../autoencoders/hunyuan_video_15/config.ts";
import { HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG } from "../families/hunyuan_video_15/config.ts";
import { HUNYUAN_VIDEO_15_FILES } from "../families/hunyuan_video_15/layouts.ts";
import { SIGLIP_VISION_CONFIG } from "../image_encoders/siglip_vision.ts";
import { IDEOGRAM4_TRANSFORMER_CONFIG } from "../families/ideogram4/config.ts";
import { IDEOGRAM4_FILES } from "../families/ideogram4/layouts.ts";
import { LTX2_CONNECTORS_CONFIG, LTX2_TRANSFORMER_CONFIG } from "../families/ltx2/config.ts";
import { LTX2_FILES } from "../families/ltx2/layouts.ts";
import { KREA2_TRANSFORMER_CONFIG } from "../families/krea2/config.ts";
import { KREA2_FILES } from "../families/krea2/layouts.ts";
import { LONGCAT_IMAGE_TRANSFORMER_CONFIG } from "../families/longcat_image/config.ts";
import { LONGCAT_IMAGE_FILES } from "../families/longcat_image/layouts.ts";
import { LUMINA2_TRANSFORMER_CONFIG } from "../families/lumina2/config.ts";
import { LUMINA2_FILES } from "../families/lumina2/layouts.ts";
import { FLUX3_TRANSFORMER_CONFIG } from "../families/flux3/config.ts";
import { FLUX3_FILES } from "../families/flux3/layouts.ts";
import { OVIS_IMAGE_TRANSFORMER_CONFIG } from "../families/ovis_image/config.ts";
import { OVIS_IMAGE_FILES } from "../families/ovis_image/layouts.ts";
import { QWEN_IMAGE_TRANSFORMER_CONFIG } from "../families/qwen_image/config.ts";
import { QWEN_IMAGE_FILES } from "../families/qwen_image/layouts.ts";
import { QWEN_IMAGE_21_TRANSFORMER_CONFIG } from "../families/qwen_image_21/config.ts";
import { QWEN_IMAGE_21_FILES } from "../families/qwen_image_21/layouts.ts";
import { SD_FILES } from "../families/stable_diffusion/layouts.ts";
import { UNET_CONFIG } from "../families/stable_diffusion/unet_config.ts";
import { ANIMATE_TRANSFORMER_CONFIG } from "../families/wan/animate/config.ts";
import { WAN_TRANSFORMER_CONFIG } from "../families/wan/config.ts";
import { ANIMATE_FILES, WAN_FILES } from "../families/wan/layouts.ts";
import { Z_IMAGE_TRANSFORMER_CONFIG } from "../families/z_image/config.ts";
import { Z_IMAGE_FILES } from "../families/z_image/layouts.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import { CLIP_VISION_CONFIG } from "../image_encoders/clip_vision.ts";
import { GEMMA3_CONFIG } from "../text_encoders/gemma3_config.ts";
import { CLIP_TEXT_CONFIG } from "../text_encoders/clip_text.ts";
import { GEMMA2_CONFIG } from "../text_encoders/gemma2.ts";
import { MINISTRAL3_CONFIG } from "../text_encoders/ministral3.ts";
import { QWEN2_5_VL_CONFIG } from "../text_encoders/qwen2_5_vl.ts";
import { QWEN3_CONFIG } from "../text_encoders/qwen3.ts";
import { QWEN3_VL_CONFIG } from "../text_encoders/qwen3_vl.ts";
import { UMT5_CONFIG } from "../text_encoders/umt5.ts";
import { recognise } from "./recognise.ts";

type Shapes = Record<string, readonly number[]>;

const FORMATS = [
  ...[WAN_FILES, ANIMATE_FILES, Z_IMAGE_FILES, FLUX1_FILES, CHROMA_FILES, FLUX2_FILES, FLUX3_FILES],
  ...[IDEOGRAM4_FILES, HUNYUAN_VIDEO_15_FILES, LUMINA2_FILES, LTX2_FILES, OVIS_IMAGE_FILES],
  ...[LONGCAT_IMAGE_FILES, AURAFLOW_FILES],
  ...[QWEN_IMAGE_FILES, QWEN_IMAGE_21_FILES, KREA2_FILES, ANIMA_FILES, ERNIE_IMAGE_FILES, SD_FILES],
].flatMap(({ formats }) => formats);

const SCHEMAS = {
  WanTransformer3DModel: WAN_TRANSFORMER_CONFIG,
  WanVACETransformer3DModel: WAN_TRANSFORMER_CONFIG,
  WanAnimate2Transformer3DModel: ANIMATE_TRANSFORMER_CONFIG,
  CLIPVisionModel: CLIP_VISION_CONFIG,
  ZImageTransformer2DModel: Z_IMAGE_TRANSFORMER_CONFIG,
  ChromaTransformer2DModel: CHROMA_TRANSFORMER_CONFIG,
  FluxTransformer2DModel: FLUX1_TRANSFORMER_CONFIG,
  Flux2Transformer2DModel: FLUX2_TRANSFORMER_CONFIG,
  Flux3Transformer2DModel: FLUX3_TRANSFORMER_CONFIG,
  Ideogram4Transformer2DModel: IDEOGRAM4_TRANSFORMER_CONFIG,
  HunyuanVideo15Transformer3DModel: HUNYUAN_VIDEO_15_TRANSFORMER_CONFIG,
  AutoencoderKLHunyuanVideo15: HUNYUAN_VIDEO_15_VAE_CONFIG,
  SiglipVisionModel: SIGLIP_VISION_CONFIG,
  AuraFlowTransformer2DModel: AURAFLOW_TRANSFORMER_CONFIG,
  LongCatImageTransformer2DModel: LONGCAT_IMAGE_TRANSFORMER_CONFIG,
  OvisImageTransformer2DModel: OVIS_IMAGE_TRANSFORMER_CONFIG,
  Lumina2Transformer2DModel: LUMINA2_TRANSFORMER_CONFIG,
  Gemma2Model: GEMMA2_CONFIG,
  QwenImageTransformer2DModel: QWEN_IMAGE_TRANSFORMER_CONFIG,
  Qwen2_5_VLForConditionalGeneration: QWEN2_5_VL_CONFIG,
  QwenImage21Transformer2DModel: QWEN_IMAGE_21_TRANSFORMER_CONFIG,
  AutoencoderKLQwenImage21: QWEN_IMAGE_21_VAE_CONFIG,
  LTX2VideoTransformer3DModel: LTX2_TRANSFORMER_CONFIG,
  LTX2TextConnectors: LTX2_CONNECTORS_CONFIG,
  Gemma3ForConditionalGeneration: GEMMA3_CONFIG,
  Krea2Transformer2DModel: KREA2_TRANSFORMER_CONFIG,
  Qwen3VLModel: QWEN3_VL_CONFIG,
  CosmosTransformer3DModel: ANIMA_TRANSFORMER_CONFIG,
  AnimaTextConditioner: ANIMA_CONDITIONER_CONFIG,
  ErnieImageTransformer2DModel: ERNIE_IMAGE_TRANSFORMER_CONFIG,
  Ministral3Model: MINISTRAL3_CONFIG,
  MistralModel: MINISTRAL3_CONFIG,
  UNet2DConditionModel: UNET_CONFIG,
  CLIPTextModel: CLIP_TEXT_CONFIG,
  CLIPTextModelWithProjection: CLIP_TEXT_CONFIG,
  UMT5EncoderModel: UMT5_CONFIG,
  Qwen3Model: QWEN3_CONFIG,
  AutoencoderKLWan: WAN_VAE_CONFIG,
  AutoencoderKL: KL_VAE_CONFIG,
  AutoencoderKLFlux2: FLUX2_VAE_CONFIG,
};

/** What `config.json` of each component in a file would say, by class, after checking it. */
function read(tensors: Record<string, MemoryTensor>) {
  return recognise(memoryTensors(tensors), FORMATS).map(({ format, tensors }) => {
    const schema = SCHEMAS[format.className as keyof typeof SCHEMAS];
    const config = schema.parse(format.config(tensors));
    return { className: format.className, config: config as Record<string, unknown>, tensors };
  });
}

function assertConfig(shapes: Shapes, className: string, expected: Record<string, unknown>) {
  const [component, ...others] = read(shapes);
  assert.equal(others.length, 0);
  assert.equal(component?.className, className);
  for (const [key, value] of Object.entries(expected)) {
    assert.deepEqual(component!.config[key], value, key);
  }
  return component!.tensors;
}

function zImage(): Shapes {
  const dim = 3840;
  const block = (path: string): Shapes => ({
    [`${path}.attention.qkv.weight`]: [3 * dim, dim],
    [`${path}.attention.q_norm.weight`]: [128],
    [`${path}.attention.k_norm.weight`]: [128],
    [`${path}.attention.out.weight`]: [dim, dim],
    [`${path}.feed_forward.w1.weight`]: [10240, dim],
  });
  return {
    "x_embedder.weight": [dim, 64],
    "x_embedder.bias": [dim],
    "cap_embedder.0.weight": [2560],
    "cap_embedder.1.weight": [dim, 2560],
    "cap_pad_token": [1, dim],
    "final_layer.linear.weight": [64, dim],
    "final_layer.adaLN_modulation.1.weight": [dim, 256],
    ...repeated(30, (i) => block(`layers.${i}`)),
    ...repeated(2, (i) => ({ ...block(`noise_refiner.${i}`), ...block(`context_refiner.${i}`) })),
  };
}

function flux2(heads: number, double: number, single: number, text: number): Shapes {
  const dim = 128 * heads;
  return {
    "img_in.weight": [dim, 128],
    "txt_in.weight": [dim, text],
    "time_in.in_layer.weight": [dim, 256],
    "double_stream_modulation_img.lin.weight": [6 * dim, dim],
    "single_stream_modulation.lin.weight": [3 * dim, dim],
    "final_layer.adaLN_modulation.1.weight": [2 * dim, dim],
    ...repeated(double, (i) => ({
      [`double_blocks.${i}.img_attn.qkv.weight`]: [3 * dim, dim],
      [`double_blocks.${i}.txt_attn.qkv.weight`]: [3 * dim, dim],
      [`double_blocks.${i}.img_attn.norm.query_norm.scale`]: [128],
      [`double_blocks.${i}.img_mlp.0.weight`]: [6 * dim, dim],
      [`double_blocks.${i}.img_mlp.2.weight`]: [dim, 3 * dim],
    })),
    ...repeated(single, (i) => ({
      [`single_blocks.${i}.linear1.weight`]: [9 * dim, dim],
    })),
  };
}

function wan(heads: number, layers: number, channels: number, ffn: number): Shapes {
  const dim = 128 * heads;
  return {
    "patch_embedding.weight": [dim, channels, 1, 2, 2],
    "text_embedding.0.weight": [dim, 4096],
    "time_embedding.0.weight": [dim, 256],
    "head.head.weight": [4 * (channels === 36 ? 16 : channels), dim],
    "head.modulation": [1, 2, dim],
    ...repeated(layers, (i) => ({
      [`blocks.${i}.self_attn.q.weight`]: [dim, dim],
      [`blocks.${i}.cross_attn.q.weight`]: [dim, dim],
      [`blocks.${i}.norm3.weight`]: [dim],
      [`blocks.${i}.ffn.0.weight`]: [ffn, dim],
      [`blocks.${i}.modulation`]: [1, 6, dim],
    })),
  };
}

/** Tensors of a Qwen3: all modules that have other names in GGUF, else those that tell sizes. */
function qwen3(hidden: number, inner: number, layers: number, heads: number): Shapes {
  return {
    "embed_tokens.weight": [151936, hidden],
    "norm.weight": [hidden],
    ...repeated(layers, (i) => ({
      [`layers.${i}.self_attn.q_proj.weight`]: [128 * heads, hidden],
      [`layers.${i}.self_attn.k_proj.weight`]: [1024, hidden],
      [`layers.${i}.self_attn.q_norm.weight`]: [128],
      [`layers.${i}.mlp.gate_proj.weight`]: [inner, hidden],
    })),
  };
}

function originalKl(latents: number): Shapes {
  const channels = [128, 256, 512, 512];
  return {
    "encoder.conv_in.weight": [128, 3, 3, 3],
    "decoder.conv_in.weight": [512, latents, 3, 3],
    "decoder.mid.block_1.norm1.weight": [512],
    "decoder.mid.attn_1.norm.weight": [512],
    "decoder.mid.attn_1.q.weight": [512, 512, 1, 1],
    ...repeated(4, (level) => ({
      ...repeated(2, (i) => ({
        [`encoder.down.${level}.block.${i}.conv1.weight`]: [channels[level]!, 128, 3, 3],
      })),
      ...repeated(3, (i) => ({
        [`decoder.up.${level}.block.${i}.conv1.weight`]: [channels[level]!, 512, 3, 3],
      })),
    })),
  };
}

Deno.test("Z-Image's single file gives the configuration of Z-Image-Turbo, with or without a prefix", () => {
  for (const prefix of ["", "model.diffusion_model."]) {
    const tensors = assertConfig(prefixed(prefix, zImage()), "ZImageTransformer2DModel", {
      dim: 3840,
      n_layers: 30,
      n_refiner_layers: 2,
      n_heads: 30,
      in_channels: 16,
      cap_feat_dim: 2560,
      axes_lens: [1536, 512, 512],
    });
    assert.deepEqual(tensors.find("layers.7.attention.to_v.weight")!.shape, [3840, 3840]);
    assert.ok(tensors.find("noise_refiner.1.attention.to_out.0.weight"));
    assert.ok(tensors.find("all_final_layer.2-1.adaLN_modulation.1.weight"));
  }
});

Deno.test("FLUX.2's single files give the configurations of klein 4B and 9B, and of dev", () => {
  const tensors = assertConfig(flux2(24, 5, 20, 7680), "Flux2Transformer2DModel", {
    num_attention_heads: 24,
    num_layers: 5,
    num_single_layers: 20,
    joint_attention_dim: 7680,
    mlp_ratio: 3,
    in_channels: 128,
    guidance_embeds: false,
  });
  assert.deepEqual(tensors.find("transformer_blocks.4.attn.add_k_proj.weight")!.shape, [
    3072,
    3072,
  ]);
  assert.deepEqual(tensors.find("norm_out.linear.weight")!.shape, [6144, 3072]);
  assertConfig(flux2(32, 8, 24, 12288), "Flux2Transformer2DModel", {
    num_attention_heads: 32,
    num_single_layers: 24,
  });
  const dev = { ...flux2(48, 8, 48, 15360), "guidance_in.in_layer.weight": [6144, 256] };
  assertConfig(dev, "Flux2Transformer2DModel", {
    num_attention_heads: 48,
    joint_attention_dim: 15360,
    guidance_embeds: true,
  });
});

Deno.test("FLUX.2's defaults go by size, and by base in the name of the file", () => {
  const defaults = (heads: number, path: string) =>
    FLUX2_FILES.defaults({ num_attention_heads: heads }, path);
  const small = defaults(24, "/base/flux-2-klein-4b.safetensors");
  assert.deepEqual(small.settings, { is_distilled: true });
  assert.equal(small.repositories[0], "black-forest-labs/FLUX.2-klein-4B");
  const large = defaults(32, "flux-2-klein-base-9b-Q4_K.gguf");
  assert.deepEqual(large.settings, { is_distilled: false });
  assert.equal(large.repositories[0], "black-forest-labs/FLUX.2-klein-base-9B");
  const dev = FLUX2_FILES.defaults({ guidance_embeds: true }, "flux2-dev.safetensors");
  assert.equal(dev.className, "Flux2Pipeline");
  assert.deepEqual(dev.repositories, ["black-forest-labs/FLUX.2-dev"]);
});

Deno.test("Wan's single files give the configurations of 1.3B, 14B and TI2V-5B, and refuse Animate", () => {
  for (
    const [heads, layers, channels, ffn, shift, isTi2v] of [
      [12, 30, 16, 8960, 3, false],
      [40, 40, 16, 13824, 5, false],
      [24, 30, 48, 14336, 5, true],
    ] as const
  ) {
    const tensors = assertConfig(wan(heads, layers, channels, ffn), "WanTransformer3DModel", {
      num_attention_heads: heads,
      num_layers: layers,
      in_channels: channels,
      out_channels: channels,
      ffn_dim: ffn,
      patch_size: [1, 2, 2],
      cross_attn_norm: true,
    });
    assert.ok(tensors.find("blocks.1.scale_shift_table"));
    const { settings, scheduler } = WAN_FILES.defaults({
      num_attention_heads: heads,
      in_channels: channels,
    }, "x");
    assert.equal(scheduler["flow_shift"], shift);
    assert.equal(settings["expand_timesteps"], isTi2v);
  }
  const animate = { "motion_encoder.dec.direction.weight": [512, 20] };
  assert.throws(() => read({ ...wan(40, 40, 36, 13824), ...animate }), /as Animate has/);
});

Deno.test("Wan-Animate-2's single files are known by diffusers' names, its own code's, and Wan's in a file of its name", () => {
  const image = { "img_emb.proj.1.weight": [1280, 1280], "img_emb.proj.0.weight": [1280] };
  const original: Shapes = { ...wan(40, 40, 36, 13824), ...image };
  const renamed = (of: (name: string) => string): Shapes =>
    Object.fromEntries(Object.entries(original).map(([name, shape]) => [of(name), shape]));
  const diffusers = renamed((name) => name.replace(/attn\.q\./, "attn.to_q."));
  const own = renamed((name) => name.replace(/^(blocks\.\d+)\./, "$1.block."));
  for (const shapes of [diffusers, own]) {
    const tensors = assertConfig(shapes, "WanAnimate2Transformer3DModel", {
      ...{ num_attention_heads: 40, num_layers: 40, in_channels: 36, out_channels: 16 },
      ...{ image_dim: 1280, refer_offset_t: 1, refer_offset_w: -1 },
    });
    assert.ok(tensors.find("blocks.1.attn1.to_q.weight"));
  }
  assertConfig(original, "WanTransformer3DModel", { in_channels: 36, image_dim: 1280 });
  const config = { num_attention_heads: 40, in_channels: 36, image_dim: 1280 };
  const classOf = (path: string) => WAN_FILES.defaults(config, path).className;
  assert.equal(classOf("/models/Wan2.2-Animate-2-14B-Q4_K.gguf"), "WanAnimate2Pipeline");
  assert.equal(classOf("/animate-2/wan2.1-i2v-14b-Q4_K.gguf"), "WanImageToVideoPipeline");
});

Deno.test("Wan's single files give the configurations of I2V, FLF2V, A14B's experts and VACE", () => {
  const image = { "img_emb.proj.1.weight": [1280, 1280], "img_emb.proj.0.weight": [1280] };
  const both = { ...image, "img_emb.emb_pos": [1, 514, 1280] };
  const vace = (dim: number, blocks: number) => ({
    "vace_patch_embedding.weight": [dim, 96, 1, 2, 2],
    ...repeated(blocks, (i) => ({ [`vace_blocks.${i}.after_proj.weight`]: [dim, dim] })),
  });
  const frames = "WanImageToVideoPipeline";
  const plain = { image_dim: null, pos_embed_seq_len: null, vace_layers: [] };
  const seen = { ...plain, image_dim: 1280, added_kv_proj_dim: 5120 };
  const every = (step: number, count: number) => Array.from({ length: count }, (_, i) => i * step);
  for (
    const [shapes, hasSecond, expected, pipeline, shift, boundary] of [
      [{ ...wan(40, 40, 36, 13824), ...image }, false, seen, frames, 5, null],
      [
        { ...wan(40, 40, 36, 13824), ...both },
        false,
        { ...seen, pos_embed_seq_len: 514 },
        frames,
        16,
        null,
      ],
      [wan(40, 40, 36, 13824), true, { ...plain, in_channels: 36 }, frames, 5, 0.9],
      [wan(40, 40, 16, 13824), true, plain, "WanPipeline", 5, 0.875],
      [
        { ...wan(12, 30, 16, 8960), ...vace(1536, 15) },
        false,
        { vace_layers: every(2, 15), vace_in_channels: 96 },
        "WanVACEPipeline",
        3,
        null,
      ],
      [
        { ...wan(40, 40, 16, 13824), ...vace(5120, 8) },
        true,
        { vace_layers: every(5, 8) },
        "WanVACEPipeline",
        5,
        0.875,
      ],
    ] as const
  ) {
    const isControlled = "vace_patch_embedding.weight" in shapes;
    const name = isControlled ? "WanVACETransformer3DModel" : "WanTransformer3DModel";
    assertConfig(shapes as Shapes, name, expected);
    const [{ config }] = read(shapes as Shapes) as [ReturnType<typeof read>[number]];
    const found = WAN_FILES.defaults(config as JsonObject, "x", hasSecond);
    assert.equal(found.className, pipeline);
    assert.equal(found.scheduler["flow_shift"], shift);
    assert.equal(found.settings["boundary_ratio"], boundary);
    assert.deepEqual(found.needs, config["image_dim"] === 1280 ? ["image_encoder"] : undefined);
  }
});

Deno.test("clip_vision_h gives the configuration of Wan's image encoder", () => {
  const [component] = read(prefixed("vision_model.", {
    "embeddings.class_embedding": [1280],
    "embeddings.patch_embedding.weight": [1280, 3, 14, 14],
    "embeddings.position_embedding.weight": [257, 1280],
    ...repeated(32, (i) => ({
      [`encoder.layers.${i}.self_attn.q_proj.weight`]: [1280, 1280],
      [`encoder.layers.${i}.mlp.fc1.weight`]: [5120, 1280],
    })),
  }));
  assert.equal(component?.className, "CLIPVisionModel");
  const { hidden_size, num_hidden_layers, num_attention_heads, image_size, hidden_act } = component!
    .config;
  assert.deepEqual(
    { hidden_size, num_hidden_layers, num_attention_heads, image_size, hidden_act },
    {
      ...{ hidden_size: 1280, num_hidden_layers: 32, num_attention_heads: 16 },
      ...{ image_size: 224, hidden_act: "gelu" },
    },
  );
});

/** Shapes under llama.cpp's names. */
function asGguf(shapes: Shapes, pairs: readonly (readonly [ours: string, theirs: string])[]) {
  return Object.fromEntries(
    Object.entries(shapes).map(([name, shape]) => [
      pairs.reduce((text, [ours, theirs]) => text.replace(ours, theirs), name),
      shape,
    ]),
  );
}

Deno.test("Qwen3's files give the configurations of 0.6B, 4B and 8B, in transformers' and llama.cpp's names", () => {
  for (
    const [hidden, inner, layers, heads] of [
      [1024, 3072, 28, 16],
      [2560, 9728, 36, 32],
      [4096, 12288, 36, 32],
    ] as const
  ) {
    const ours = qwen3(hidden, inner, layers, heads);
    const gguf = asGguf(ours, [
      ["embed_tokens", "token_embd"],
      ["layers.", "blk."],
      ["self_attn.q_proj", "attn_q"],
      ["self_attn.k_proj", "attn_k"],
      ["self_attn.q_norm", "attn_q_norm"],
      ["mlp.gate_proj", "ffn_gate"],
    ]);
    for (const shapes of [ours, prefixed("model.", ours), gguf]) {
      assertConfig(shapes, "Qwen3Model", {
        hidden_size: hidden,
        intermediate_size: inner,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: 8,
        head_dim: 128,
        rope_theta: 1e6,
      });
    }
  }
});

Deno.test("UMT5-XXL's files give its configuration, in transformers' and llama.cpp's names", () => {
  const ours: Shapes = {
    "shared.weight": [256384, 4096],
    "encoder.final_layer_norm.weight": [4096],
    ...repeated(24, (i) => ({
      [`encoder.block.${i}.layer.0.SelfAttention.q.weight`]: [4096, 4096],
      [`encoder.block.${i}.layer.0.SelfAttention.relative_attention_bias.weight`]: [32, 64],
      [`encoder.block.${i}.layer.1.DenseReluDense.wi_0.weight`]: [10240, 4096],
    })),
  };
  const gguf = asGguf(ours, [
    ["shared", "token_embd"],
    ["encoder.final_layer_norm", "enc.output_norm"],
    ["encoder.block.", "enc.blk."],
    ["layer.0.SelfAttention.q", "attn_q"],
    ["layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"],
    ["layer.1.DenseReluDense.wi_0", "ffn_gate"],
  ]);
  for (const shapes of [ours, gguf]) {
    assertConfig(shapes, "UMT5EncoderModel", {
      vocab_size: 256384,
      d_model: 4096,
      d_kv: 64,
      d_ff: 10240,
      num_layers: 24,
      num_heads: 64,
    });
  }
});

Deno.test("image autoencoders are told apart by their latents, in both namings", () => {
  const body = {
    block_out_channels: [128, 256, 512, 512],
    layers_per_block: 2,
    mid_block_add_attention: true,
  };
  const tensors = assertConfig(prefixed("vae.", originalKl(16)), "AutoencoderKL", {
    ...body,
    latent_channels: 16,
    use_quant_conv: false,
    scaling_factor: 0.3611,
    shift_factor: 0.1159,
  });
  assert.deepEqual(
    tensors.find("decoder.up_blocks.0.resnets.2.conv1.weight")!.shape,
    tensors.find("encoder.down_blocks.3.resnets.1.conv1.weight")!.shape.with(1, 512),
  );
  const quant = { "decoder.post_quant_conv.weight": [32, 32, 1, 1] };
  assertConfig({ ...originalKl(32), ...quant }, "AutoencoderKLFlux2", {
    ...body,
    latent_channels: 32,
    use_post_quant_conv: true,
    decoder_block_out_channels: [128, 256, 512, 512],
  });
  assertConfig(originalKl(4), "AutoencoderKL", {
    ...body,
    scaling_factor: 0.18215,
    shift_factor: 0,
  });
  assert.deepEqual(read(originalKl(8)), []);
  const ours = Object.fromEntries(
    [...tensors.names].map((name) => [name, tensors.find(name)!.shape]),
  );
  assertConfig(ours, "AutoencoderKL", { ...body, latent_channels: 16 });
});

Deno.test("one file may hold a transformer, a text encoder and an autoencoder", () => {
  const found = read({
    ...prefixed("model.diffusion_model.", zImage()),
    ...prefixed("text_encoders.qwen3_4b.transformer.model.", qwen3(2560, 9728, 36, 32)),
    ...prefixed("vae.", originalKl(16)),
    "text_encoders.qwen3_4b.logit_scale": [1],
  });
  assert.deepEqual(
    found.map(({ className }) => className).toSorted(),
    [
      "ZImageTransformer2DModel",
      "AutoencoderKL",
      "Qwen3Model",
    ].toSorted(),
  );
});
