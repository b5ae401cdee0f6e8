/** Files as people have them: all names and shapes of published checkpoints of Stable Diffusion 3, without their numbers. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import {
  LARGE,
  layer,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { formatsFor, recognise } from "../../checkpoints/recognise.ts";
import { parseConfig } from "../../config.ts";
import { FLUX1_FILES } from "../flux1/layouts.ts";
import { SD_FILES } from "../stable_diffusion/layouts.ts";
import { ALL_TOKENS } from "../../sharing/token_split.ts";
import { SD3_CONTROLNET_CONFIG, SD3_TRANSFORMER_CONFIG } from "./config.ts";
import { sd3Control } from "./control.ts";
import { SD3_FILES } from "./layouts.ts";
import { blockTables, modulationTables, TIMESTEP_CHANNELS } from "./modulation.ts";
import { type JointStreams, sd3Context, sd3Transformer } from "./transformer.ts";

interface Kind {
  readonly name: string;
  readonly blocks: number;
  readonly side: number;
  /** How many blocks from the first on have an attention of the image alone. */
  readonly dual: number;
  readonly isNormed: boolean;
}

const KINDS: readonly Kind[] = [
  { name: "3-medium", blocks: 24, side: 192, dual: 0, isNormed: false },
  { name: "3.5-medium", blocks: 24, side: 384, dual: 13, isNormed: true },
  { name: "3.5-large", blocks: 38, side: 192, dual: 0, isNormed: true },
];

/** Under the names of Stability AI. */
function original({ blocks, side, dual, isNormed }: Kind): Shapes {
  const dim = 64 * blocks;
  const attention = (name: string) => ({
    ...layer(`${name}.qkv`, 3 * dim, dim),
    ...isNormed ? { [`${name}.ln_q.weight`]: [64], [`${name}.ln_k.weight`]: [64] } : {},
  });
  const branches = (name: string) => ({
    ...layer(`${name}.attn.proj`, dim, dim),
    ...layer(`${name}.mlp.fc1`, 4 * dim, dim),
    ...layer(`${name}.mlp.fc2`, dim, 4 * dim),
  });
  const embedder = (name: string, width: number) => ({
    ...layer(`${name}.mlp.0`, dim, width),
    ...layer(`${name}.mlp.2`, dim, dim),
  });
  return {
    "pos_embed": [1, side ** 2, dim],
    "x_embedder.proj.weight": [dim, 16, 2, 2],
    "x_embedder.proj.bias": [dim],
    ...embedder("t_embedder", 256),
    ...embedder("y_embedder", 2048),
    ...layer("context_embedder", dim, 4096),
    ...repeated(blocks, (i) => {
      const [image, text] = ["x", "context"].map((name) => `joint_blocks.${i}.${name}_block`);
      const isLast = i === blocks - 1;
      return {
        ...attention(`${image}.attn`),
        ...attention(`${text}.attn`),
        ...branches(image!),
        ...i < dual
          ? { ...attention(`${image}.attn2`), ...layer(`${image}.attn2.proj`, dim, dim) }
          : {},
        ...layer(`${image}.adaLN_modulation.1`, (i < dual ? 9 : 6) * dim, dim),
        ...layer(`${text}.adaLN_modulation.1`, (isLast ? 2 : 6) * dim, dim),
        ...isLast ? {} : branches(text!),
      };
    }),
    ...layer("final_layer.linear", 64, dim),
    ...layer("final_layer.adaLN_modulation.1", 2 * dim, dim),
  };
}

/** Under the names of diffusers. */
function diffusers({ blocks, side, dual, isNormed }: Kind): Shapes {
  const dim = 64 * blocks;
  const layers = (name: string, names: readonly string[]): Shapes =>
    Object.assign({}, ...names.map((each) => layer(`${name}.${each}`, dim, dim)));
  const norms = (name: string, names: readonly string[]): Shapes =>
    Object.fromEntries(isNormed ? names.map((each) => [`${name}.${each}.weight`, [64]]) : []);
  const forward = (name: string) => ({
    ...layer(`${name}.net.0.proj`, 4 * dim, dim),
    ...layer(`${name}.net.2`, dim, 4 * dim),
  });
  const embedder = (name: string, width: number) => ({
    ...layer(`time_text_embed.${name}.linear_1`, dim, width),
    ...layer(`time_text_embed.${name}.linear_2`, dim, dim),
  });
  const own = ["to_q", "to_k", "to_v", "to_out.0"];
  return {
    "pos_embed.pos_embed": [1, side ** 2, dim],
    "pos_embed.proj.weight": [dim, 16, 2, 2],
    "pos_embed.proj.bias": [dim],
    ...embedder("timestep_embedder", 256),
    ...embedder("text_embedder", 2048),
    ...layer("context_embedder", dim, 4096),
    ...repeated(blocks, (i) => {
      const block = `transformer_blocks.${i}`;
      const isLast = i === blocks - 1;
      return {
        ...layers(`${block}.attn`, [...own, "add_q_proj", "add_k_proj", "add_v_proj"]),
        ...isLast ? {} : layers(`${block}.attn`, ["to_add_out"]),
        ...norms(`${block}.attn`, ["norm_q", "norm_k", "norm_added_q", "norm_added_k"]),
        ...i < dual
          ? { ...layers(`${block}.attn2`, own), ...norms(`${block}.attn2`, ["norm_q", "norm_k"]) }
          : {},
        ...forward(`${block}.ff`),
        ...isLast ? {} : forward(`${block}.ff_context`),
        ...layer(`${block}.norm1.linear`, (i < dual ? 9 : 6) * dim, dim),
        ...layer(`${block}.norm1_context.linear`, (isLast ? 2 : 6) * dim, dim),
      };
    }),
    ...layer("norm_out.linear", 2 * dim, dim),
    ...layer("proj_out", 64, dim),
  };
}

/** Billions of parameters of the transformer, as the model cards round them; tables of positions are none. */
const SIZES: Readonly<Record<string, number>> = {
  ...{ "3-medium": 2.03, "3.5-medium": 2.24, "3.5-large": 8.06 },
};

Deno.test("all tensors of SD 3 and 3.5 are known and used, under the names of Stability AI and of diffusers", () => {
  for (const kind of KINDS) {
    const { name, blocks, side, dual, isNormed } = kind;
    for (
      const shapes of [
        original(kind),
        prefixed("model.diffusion_model.", original(kind)),
        diffusers(kind),
      ]
    ) {
      const [found, ...others] = recognise(memoryTensors(shapes), SD3_FILES.formats);
      assert.ok(found && others.length === 0);
      const json = found.format.config(found.tensors);
      const config = parseConfig(SD3_TRANSFORMER_CONFIG, json, "config.json");
      assert.deepEqual(
        [config.num_layers, config.num_attention_heads, config.pos_embed_max_size],
        [blocks, blocks, side],
      );
      assert.equal(config.dual_attention_layers.length, dual);
      assert.equal(config.qk_norm, isNormed ? "rms_norm" : null);
      const { repositories } = SD3_FILES.defaults(json, `/base/sd${name.replace("-", "_")}.gguf`);
      assert.ok(repositories[0]?.startsWith(`stabilityai/stable-diffusion-${name}`));
      const weights = new Weights(found.tensors);
      const graph = new Graph("model", LARGE);
      const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
      const { root } = weights;
      sd3Transformer(graph, config, root, {
        ...modulationTables(config, root, input(1, TIMESTEP_CHANNELS), input(1, 2048)),
        context: sd3Context(config, root, input(1, 8, 4096)),
        sample: input(1, 4, 64),
        grid: { rows: 2, columns: 2 },
        step: graph.use(new DeviceTensor("step", [1], "u32")),
      });
      assert.deepEqual(weights.unused, []);
      const count = Object.entries(shapes).filter(([name]) => !name.endsWith("pos_embed"))
        .reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b), 0);
      assert.equal((count / 1e9).toFixed(2), SIZES[name]!.toFixed(2), name);
    }
  }
});

/** Of InstantX, under the names of diffusers: 6 blocks of SD 3 Medium, none of which is its last. */
function jointControlNet(): Shapes {
  const shapes = Object.entries(diffusers({ ...KINDS[0]!, blocks: 24 }))
    .filter(([name]) => /^(?:pos_embed|time_text|context|transformer_blocks\.[0-5]\.)/.test(name));
  return {
    ...Object.fromEntries(shapes),
    ...repeated(6, (i) => layer(`controlnet_blocks.${i}`, 1536, 1536)),
    "pos_embed_input.proj.weight": [1536, 16, 2, 2],
    "pos_embed_input.proj.bias": [1536],
  };
}

/** Of Stability AI, under its names. Source: diffusers' `convert_sd3_controlnet_checkpoint_to_diffusers`. */
function largeControlNet(): Shapes {
  const dim = 2432;
  return {
    "pos_embed_input.proj.weight": [dim, 16, 2, 2],
    "pos_embed_input.proj.bias": [dim],
    ...layer("time_text_embed.timestep_embedder.linear_1", dim, 256),
    ...layer("time_text_embed.timestep_embedder.linear_2", dim, dim),
    ...layer("time_text_embed.text_embedder.linear_1", dim, 2048),
    ...layer("time_text_embed.text_embedder.linear_2", dim, dim),
    ...repeated(19, (i) => ({
      ...layer(`controlnet_blocks.${i}`, dim, dim),
      ...layer(`transformer_blocks.${i}.attn.qkv`, 3 * dim, dim),
      ...layer(`transformer_blocks.${i}.attn.proj`, dim, dim),
      ...layer(`transformer_blocks.${i}.mlp.fc1`, 4 * dim, dim),
      ...layer(`transformer_blocks.${i}.mlp.fc2`, dim, 4 * dim),
      ...layer(`transformer_blocks.${i}.adaLN_modulation.1`, 6 * dim, dim),
    })),
  };
}

Deno.test("all tensors of SD 3's ControlNets are known and used: of InstantX, of Stability AI", () => {
  const cases = [[jointControlNet(), 6, 24, 4096], [largeControlNet(), 19, 38, null]] as const;
  for (const [shapes, layers, blocks, width] of cases) {
    const [found, ...others] = recognise(memoryTensors(shapes), SD3_FILES.formats);
    assert.ok(found && others.length === 0);
    assert.equal(found.format.className, "SD3ControlNetModel");
    const json = found.format.config(found.tensors);
    const config = parseConfig(SD3_CONTROLNET_CONFIG, json, "config.json");
    assert.deepEqual(
      [config.num_layers, config.joint_attention_dim, config.use_pos_embed],
      [layers, width, width !== null],
    );
    const weights = new Weights(found.tensors);
    const graph = new Graph("model", LARGE);
    const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
    const { root } = weights;
    const dim = 64 * config.num_attention_heads;
    const steps = sd3Control(graph, config, root, {
      context: width === null ? undefined : sd3Context(config, root, input(1, 8, width)),
      sample: input(1, 4, 64),
      picture: input(1, 4, 64),
      scale: input(1),
      grid: { rows: 2, columns: 2 },
      tables: blockTables(config, root, input(1, TIMESTEP_CHANNELS), input(1, 2048)),
      step: graph.use(new DeviceTensor("step", [1], "u32")),
    }, ...width === null ? [() => input(1, 4, dim)] : [])(ALL_TOKENS, blocks);
    let beside: typeof steps.begin | undefined = steps.begin;
    for (let block = 0; block < blocks; block++) {
      beside = steps.after({ x: input(1, 4, dim), control: beside }, block).control;
    }
    assert.ok((beside?.own as JointStreams).image);
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("a file of SD 3 with its text encoders gives each its place, whatever other families call it", () => {
  const clip = (dim: number): Shapes => ({
    "text_model.embeddings.token_embedding.weight": [49408, dim],
    "text_model.encoder.layers.0.self_attn.q_proj.weight": [dim, dim],
    "text_projection.weight": [dim, dim],
  });
  const shapes = {
    ...prefixed("model.diffusion_model.", original(KINDS[0]!)),
    ...prefixed("text_encoders.clip_g.transformer.", clip(1280)),
    ...prefixed("text_encoders.clip_l.transformer.", clip(768)),
    "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight":
      [32, 64],
    "first_stage_model.decoder.conv_in.weight": [512, 16, 3, 3],
    "first_stage_model.decoder.mid.block_1.norm1.weight": [512],
  };
  const source = memoryTensors(shapes);
  const formats = formatsFor(source, [FLUX1_FILES, SD_FILES, SD3_FILES], []);
  const found = recognise(source, formats).map(({ format, tensors }) => {
    const width = tensors.find("embeddings.token_embedding.weight") ??
      tensors.find("text_model.embeddings.token_embedding.weight");
    return [format.component, format.className, width?.shape[1]];
  });
  assert.deepEqual(found.slice(0, 4), [
    ["transformer", "SD3Transformer2DModel", undefined],
    ["text_encoder", "CLIPTextModel", 768],
    ["text_encoder_2", "CLIPTextModelWithProjection", 1280],
    ["text_encoder_3", "T5EncoderModel", undefined],
  ]);
  assert.equal(found[4]?.[0], "vae");
});
