/** Qwen-Image-2.1's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { LARGE, repeated, type Shapes } from "../../../tests/support/published_shapes.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { QWEN_IMAGE_21_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
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

function opened(shapes: Shapes) {
  const [found, ...others] = recognise(memoryTensors(shapes), QWEN_IMAGE_21_FILES.formats);
  assert.deepEqual(others, []);
  const graph = new Graph("test", LARGE);
  const input = (shape: number[], dtype: "f32" | "u32" = "f32") =>
    graph.use(new DeviceTensor("input", shape, dtype));
  const json = found!.format.config(found!.tensors);
  return { graph, input, json, weights: new Weights(found!.tensors) };
}

Deno.test("Qwen-Image-2.1's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  assert.equal(Object.keys(transformer()).length, 297);
  for (const prefix of ["", "model.diffusion_model."]) {
    const shapes = Object.fromEntries(
      Object.entries(transformer()).map(([name, shape]) => [prefix + name, shape]),
    );
    const { graph, input, weights: { root }, weights, json } = opened(shapes);
    const config = QWEN_IMAGE_21_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, QWEN_IMAGE_21_TRANSFORMER_CONFIG.parse({}));
    qwenImage21Transformer(graph, config, root, {
      context: qwenImage21Context(graph, config, root, input([1, 5, DIM])),
      textTokens: 5,
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
