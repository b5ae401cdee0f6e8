/** IP-Adapters as people have them: all names and shapes of published files, without their numbers. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { LARGE, layer, repeated, type Shapes } from "../../../tests/support/published_shapes.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { parseConfig } from "../../config.ts";
import {
  CLIP_VISION_CONFIG,
  clipImageEmbeds,
  clipVision,
} from "../../image_encoders/clip_vision.ts";
import { imageTokens, unetImageStates } from "./ip_adapter.ts";
import { countedModules, IP_ADAPTER_CONFIG, seesImages } from "./ip_adapter_config.ts";
import { SD_FILES } from "./layouts.ts";
import { UNET_CONFIG, type UnetConfig } from "./unet_config.ts";

const SD1: UnetConfig = parseConfig(UNET_CONFIG, { cross_attention_dim: 768 }, "");
const SDXL: UnetConfig = parseConfig(UNET_CONFIG, {
  block_out_channels: [320, 640, 1280],
  down_block_types: ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
  up_block_types: ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
  transformer_layers_per_block: [1, 2, 10],
  attention_head_dim: [5, 10, 20],
  cross_attention_dim: 2048,
  use_linear_projection: true,
}, "");
/** Widths of the published encoders: their states, and the embedding of an image. */
const [VIT_H, VIT_H_EMBEDDING, BIG_G, BIG_G_EMBEDDING] = [1280, 1024, 1664, 1280];

function norm(name: string, size: number): Shapes {
  return { [`${name}.weight`]: [size], [`${name}.bias`]: [size] };
}

function attentions(unet: UnetConfig): Shapes {
  const all = countedModules(unet).flatMap(({ channels }, i) =>
    ["k", "v"].map((part) => [
      `ip_adapter.${2 * i + 1}.to_${part}_ip.weight`,
      [channels, unet.cross_attention_dim],
    ])
  );
  return Object.fromEntries(all);
}

function plain(unet: UnetConfig, embedding: number): Shapes {
  const text = unet.cross_attention_dim;
  const own = {
    ...layer("image_proj.proj", 4 * text, embedding),
    ...norm("image_proj.norm", text),
  };
  return { ...own, ...attentions(unet) };
}

function full(unet: UnetConfig): Shapes {
  return {
    ...layer("image_proj.proj.0", VIT_H, VIT_H),
    ...layer("image_proj.proj.2", unet.cross_attention_dim, VIT_H),
    ...norm("image_proj.proj.3", unet.cross_attention_dim),
    ...attentions(unet),
  };
}

function plus(unet: UnetConfig, dim: number): Shapes {
  const text = unet.cross_attention_dim;
  return {
    "image_proj.latents": [1, 16, dim],
    ...layer("image_proj.proj_in", dim, VIT_H),
    ...layer("image_proj.proj_out", text, dim),
    ...norm("image_proj.norm_out", text),
    ...repeated(4, (i) => {
      const [attention, forward] = [0, 1].map((part) => `image_proj.layers.${i}.${part}`);
      return {
        ...norm(`${attention}.norm1`, dim),
        ...norm(`${attention}.norm2`, dim),
        [`${attention}.to_q.weight`]: [dim, dim],
        [`${attention}.to_kv.weight`]: [2 * dim, dim],
        [`${attention}.to_out.weight`]: [dim, dim],
        ...norm(`${forward}.0`, dim),
        [`${forward}.1.weight`]: [4 * dim, dim],
        [`${forward}.3.weight`]: [dim, 4 * dim],
      };
    }),
    ...attentions(unet),
  };
}

/** A CLIP tower of h94/IP-Adapter, with its projection. */
function tower(dim: number, layers: number, hidden: number, embedding: number): Shapes {
  return {
    "vision_model.embeddings.class_embedding": [dim],
    "vision_model.embeddings.patch_embedding.weight": [dim, 3, 14, 14],
    "vision_model.embeddings.position_embedding.weight": [257, dim],
    ...norm("vision_model.pre_layrnorm", dim),
    ...norm("vision_model.post_layernorm", dim),
    ...repeated(layers, (i) => {
      const name = `vision_model.encoder.layers.${i}`;
      const parts = ["q_proj", "k_proj", "v_proj", "out_proj"];
      return {
        ...norm(`${name}.layer_norm1`, dim),
        ...norm(`${name}.layer_norm2`, dim),
        ...layer(`${name}.mlp.fc1`, hidden, dim),
        ...layer(`${name}.mlp.fc2`, dim, hidden),
        ...Object.assign({}, ...parts.map((part) => layer(`${name}.self_attn.${part}`, dim, dim))),
      };
    }),
    "visual_projection.weight": [embedding, dim],
  };
}

function opened(shapes: Shapes) {
  const [found, ...others] = recognise(memoryTensors(shapes), SD_FILES.formats);
  assert.deepEqual(others, []);
  return { json: found!.format.config(found!.tensors), weights: new Weights(found!.tensors) };
}

function parametersOf(shapes: Shapes): number {
  const sizes = Object.values(shapes).map((shape) => shape.reduce((all, size) => all * size, 1));
  return sizes.reduce((sum, size) => sum + size, 0);
}

Deno.test("all tensors of published IP-Adapters are known and used, and their kinds and sizes are told by them", () => {
  const files = [
    ["ip-adapter_sd15", SD1, plain(SD1, VIT_H_EMBEDDING), "plain", 4, "44.6"],
    ["ip-adapter-plus_sd15", SD1, plus(SD1, 768), "plus", 16, "98.2"],
    ["ip-adapter-full-face_sd15", SD1, full(SD1), "full", 257, "43.6"],
    ["ip-adapter_sdxl_vit-h", SDXL, plain(SDXL, VIT_H_EMBEDDING), "plain", 4, "698.4"],
    ["ip-adapter-plus_sdxl_vit-h", SDXL, plus(SDXL, 1280), "plus", 16, "847.5"],
    ["ip-adapter_sdxl", SDXL, plain(SDXL, BIG_G_EMBEDDING), "plain", 4, "702.6"],
  ] as const;
  for (const [name, unet, shapes, kind, count, megabytes] of files) {
    const { json, weights } = opened(shapes);
    const config = parseConfig(IP_ADAPTER_CONFIG, json, name);
    assert.equal(config.kind, kind, name);
    const graph = new Graph("model", LARGE);
    const seen = kind === "plain" ? [1, config.image_dim] : [1, 257, config.image_dim];
    const tokens = imageTokens(
      config,
      weights.root,
      graph.use(new DeviceTensor("seen", seen, "f32")),
    );
    assert.deepEqual(tokens.shape, [1, count, unet.cross_attention_dim], name);
    unetImageStates(unet, weights.root, tokens, "all");
    assert.deepEqual(weights.unused, [], name);
    assert.equal((2e-6 * parametersOf(shapes)).toFixed(1), megabytes, name);
  }
});

Deno.test("all tensors of the image encoders of IP-Adapters are known and used, in files without configuration too", () => {
  const towers = [
    [tower(VIT_H, 32, 5120, VIT_H_EMBEDDING), 16, VIT_H_EMBEDDING],
    [tower(BIG_G, 48, 8192, BIG_G_EMBEDDING), 16, BIG_G_EMBEDDING],
  ] as const;
  for (const [shapes, heads, embedding] of towers) {
    const { json, weights } = opened(shapes);
    const config = parseConfig(CLIP_VISION_CONFIG, json, "");
    const { num_attention_heads, projection_dim, image_size } = config;
    assert.deepEqual([num_attention_heads, projection_dim, image_size], [heads, embedding, 224]);
    const graph = new Graph("model", LARGE);
    const pixels = graph.use(new DeviceTensor("pixels", [1, 224, 224, 3], "f32"));
    const states = clipVision(graph, config, weights.root, pixels);
    assert.deepEqual(clipImageEmbeds(config, weights.root, states).shape, [1, embedding]);
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("seesImages() picks the blocks of SDXL that InstantStyle does: up block 0 for style, down block 2 for layout", () => {
  const seen = (mode: Parameters<typeof seesImages>[1]) => {
    const isSeeing = seesImages(SDXL, mode);
    const modules = countedModules(SDXL).map(({ name }) => name).filter((name) => isSeeing(name));
    return [modules.length, ...new Set(modules.map((name) => name.split(".transformer")[0]))];
  };
  const [style, layout] = ["up_blocks.0.attentions.1", "down_blocks.2.attentions.1"];
  assert.deepEqual(seen("style"), [10, style]);
  assert.deepEqual(seen("layout"), [10, layout]);
  assert.deepEqual(seen("style_layout"), [20, layout, style]);
  assert.equal(seen("all")[0], 70);
});

Deno.test("IP-Adapters of faces are refused by name, for they need another program's eyes", () => {
  const faces = [
    { ...layer("image_proj.proj.0", 1024, 512), ...norm("image_proj.norm", 768) },
    layer("image_proj.perceiver_resampler.proj_in", 768, 1280),
  ];
  for (const face of faces) {
    assert.throws(
      () => opened({ ...face, ...attentions(SD1) }),
      /it is an IP-Adapter FaceID, which sees faces by .* InsightFace; .* "plus-face" and "full-face"/,
    );
  }
});
