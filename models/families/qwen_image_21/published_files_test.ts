/** Qwen-Image-2.1's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { QWEN_IMAGE_21_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { QWEN3_VISION_CONFIG, qwen3Vision } from "../../image_encoders/qwen3_vision.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
import { QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { QWEN_IMAGE_21_TRANSFORMER_CONFIG } from "./config.ts";
import { QWEN_IMAGE_21_FILES } from "./layouts.ts";
import { qwenImage21Context, qwenImage21Transformer, timestepTable } from "./transformer.ts";

const DIM = 4096;

/** All tensors of the transformer. Source: `QwenImage21Transformer2DModel` of diffusers with its defaults. */
function transformer(): Shapes {
  return {
    "time_text_embed.timestep_embedder.linear_1.weight": [DIM, 256],
    "time_text_embed.timestep_embedder.linear_2.weight": [DIM, DIM],
    "txt_in.text_norm.weight": [DIM],
    "txt_in.in_layer.weight": [DIM, DIM],
    "txt_in.out_layer.weight": [DIM, DIM],
    "img_in.weight": [DIM, 64],
    "modulation.1.weight": [4 * DIM, DIM],
    ...repeated(32, (i) => {
      const [attn, mlp] = ["attn", "img_mlp"].map((part) => `transformer_blocks.${i}.${part}`);
      return {
        ...Object.fromEntries(
          ["to_q", "to_k", "to_v", "to_out.0"].map((
            name,
          ) => [`${attn}.${name}.weight`, [DIM, DIM]]),
        ),
        [`${attn}.norm_q.weight`]: [128],
        [`${attn}.norm_k.weight`]: [128],
        [`${mlp}.proj.weight`]: [3 * DIM, DIM],
        [`${mlp}.gate_layer.weight`]: [3 * DIM, DIM],
        [`${mlp}.out.weight`]: [DIM, 3 * DIM],
      };
    }),
    "norm_out.linear.weight": [DIM, DIM],
    "proj_out.weight": [64, DIM],
  };
}

function convolution(name: string, out: number, channels: number, side = 3): Shapes {
  return { [`${name}.weight`]: [out, channels, side, side], [`${name}.bias`]: [out] };
}

function resnet(name: string, out: number, channels: number): Shapes {
  return {
    [`${name}.norm1.gamma`]: [channels, 1, 1, 1],
    ...convolution(`${name}.conv1`, out, channels),
    [`${name}.norm2.gamma`]: [out, 1, 1, 1],
    ...convolution(`${name}.conv2`, out, out),
    ...(out !== channels && convolution(`${name}.conv_shortcut`, out, channels, 1)),
  };
}

/** The encoder, or the decoder, of the numbers of channels from its one end to the other. */
function side(
  name: string,
  dims: readonly number[],
  { way, blocks, temporal, given }: {
    way: "down" | "up";
    blocks: number;
    temporal: readonly number[];
    given: readonly [first: number, last: number];
  },
): Shapes {
  const [first, last] = [dims[0]!, dims.at(-1)!];
  const middle = way === "down" ? last : first;
  const attention = `${name}.mid_block.attentions.0`;
  return {
    ...convolution(`${name}.conv_in`, first, given[0]),
    ...repeated(dims.length - 1, (level) => {
      const [channels, out] = [dims[level]!, dims[level + 1]!];
      const block = `${name}.${way}_blocks.${level}`;
      const sampler = `${block}.${way}sampler`;
      return {
        ...repeated(blocks, (i) => resnet(`${block}.resnets.${i}`, out, i === 0 ? channels : out)),
        ...(level < dims.length - 2 && convolution(`${sampler}.resample.1`, out, out)),
        ...(temporal.includes(level) &&
          convolution(`${sampler}.time_conv`, way === "up" ? 2 * out : out, out, 1)),
      };
    }),
    ...repeated(2, (i) => resnet(`${name}.mid_block.resnets.${i}`, middle, middle)),
    [`${attention}.norm.gamma`]: [middle, 1, 1],
    ...convolution(`${attention}.to_qkv`, 3 * middle, middle, 1),
    ...convolution(`${attention}.proj`, middle, middle, 1),
    [`${name}.norm_out.gamma`]: [last, 1, 1, 1],
    ...convolution(`${name}.conv_out`, given[1], last),
  };
}

/** All tensors of the autoencoder. Source: `AutoencoderKLQwenImage21` of diffusers with its defaults. */
function autoencoder(): Shapes {
  return {
    ...side("encoder", [96, 96, 192, 384, 768, 768], {
      ...{ way: "down", blocks: 2, temporal: [1, 2, 3], given: [4, 128] },
    }),
    ...convolution("quant_conv", 128, 128, 1),
    ...convolution("post_quant_conv", 64, 64, 1),
    ...side("decoder", [1152, 1152, 1152, 576, 288, 144], {
      ...{ way: "up", blocks: 3, temporal: [0, 1, 2], given: [64, 4] },
    }),
  };
}

const opened = (shapes: Shapes) => openPublished(shapes, QWEN_IMAGE_21_FILES.formats);

Deno.test("Qwen-Image-2.1's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  assert.equal(Object.keys(transformer()).length, 297);
  for (const prefix of ["", "model.diffusion_model."]) {
    const shapes = prefixed(prefix, transformer());
    const { graph, input, weights: { root }, weights, json } = opened(shapes);
    const config = QWEN_IMAGE_21_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, QWEN_IMAGE_21_TRANSFORMER_CONFIG.parse({}));
    qwenImage21Transformer(graph, config, root, {
      context: [
        qwenImage21Context(graph, config, root, { segments: [{ tokens: input([1, 5, DIM]) }] }),
      ],
      place: 5,
      sample: input([1, 24, 64]),
      grid: { rows: 4, columns: 6 },
      times: timestepTable(graph, config, root, [1000]),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("Qwen-Image-2.1's autoencoder is known from Wan's, and images need all of it but what mixes frames", () => {
  assert.equal(Object.keys(autoencoder()).length, 238);
  const { graph, input, weights, json } = opened(autoencoder());
  const { latents_mean, latents_std, ...config } = QWEN_IMAGE_21_VAE_CONFIG.parse(json);
  const own = { latents_mean, latents_std };
  const { latents_mean: _, latents_std: __, ...usual } = QWEN_IMAGE_21_VAE_CONFIG.parse(own);
  assert.deepEqual({ ...config, patch_size: undefined }, { ...usual, patch_size: undefined });
  const codec = wanImageCodec({ config: { ...config, ...own }, weights });
  assert.deepEqual(codec.decode(graph, input([1, 2, 4, 64])).shape, [1, 32, 64, 4]);
  assert.deepEqual(codec.encode(graph, input([1, 32, 64, 4])).shape, [1, 2, 4, 128]);
  assert.deepEqual(weights.unused.filter((name) => !/\.time_conv\./.test(name)), []);
});

/** All tensors of Qwen3-VL-8B's vision tower, of 27 layers, and samples of the language model. Source: `Qwen3VLModel`. */
function textEncoder(): Shapes {
  const dim = 1152;
  const norm = (name: string, size: number) => ({
    [`model.visual.${name}.weight`]: [size],
    [`model.visual.${name}.bias`]: [size],
  });
  const own = (name: string, ...sizes: [number, number]) => layer(`model.visual.${name}`, ...sizes);
  const merger = (name: string, normed: number) => ({
    ...norm(`${name}.norm`, normed),
    ...own(`${name}.linear_fc1`, 4 * dim, 4 * dim),
    ...own(`${name}.linear_fc2`, DIM, 4 * dim),
  });
  const sample = "model.language_model.layers.0";
  return {
    "model.visual.patch_embed.proj.weight": [dim, 3, 2, 16, 16],
    "model.visual.patch_embed.proj.bias": [dim],
    "model.visual.pos_embed.weight": [2304, dim],
    ...repeated(27, (i) => ({
      ...norm(`blocks.${i}.norm1`, dim),
      ...norm(`blocks.${i}.norm2`, dim),
      ...own(`blocks.${i}.attn.qkv`, 3 * dim, dim),
      ...own(`blocks.${i}.attn.proj`, dim, dim),
      ...own(`blocks.${i}.mlp.linear_fc1`, 4304, dim),
      ...own(`blocks.${i}.mlp.linear_fc2`, dim, 4304),
    })),
    ...merger("merger", dim),
    ...repeated(3, (i) => merger(`deepstack_merger_list.${i}`, 4 * dim)),
    "model.language_model.embed_tokens.weight": [151936, DIM],
    "model.language_model.norm.weight": [DIM],
    [`${sample}.self_attn.q_proj.weight`]: [4096, DIM],
    [`${sample}.self_attn.k_proj.weight`]: [1024, DIM],
    [`${sample}.self_attn.q_norm.weight`]: [128],
    [`${sample}.mlp.gate_proj.weight`]: [12288, DIM],
  };
}

Deno.test("Qwen3-VL's vision tower is found in its text encoder, with nothing unmatched", () => {
  const shapes = textEncoder();
  assert.equal(Object.keys(shapes).filter((name) => name.includes(".visual.")).length, 351);
  const { graph, input, weights, json } = opened(shapes);
  const { vision } = QWEN3_VL_CONFIG.parse(json);
  assert.deepEqual(vision, QWEN3_VISION_CONFIG.parse({ out_hidden_size: DIM }));
  const patches = input([24, 16 * 16 * 3]);
  const tower = weights.root.scope("model.visual");
  const seen = qwen3Vision(graph, vision!, tower, patches, { rows: 4, columns: 6 });
  assert.deepEqual(seen.map(({ shape }) => shape), new Array(4).fill([6, DIM]));
  assert.deepEqual(weights.unused.filter((name) => name.includes("visual")), []);
});
