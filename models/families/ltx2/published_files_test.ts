/** LTX-2's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import {
  languageModel,
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { gemma3Encoder } from "../../text_encoders/gemma3.ts";
import { GEMMA3_CONFIG } from "../../text_encoders/gemma3_config.ts";
import { LTX2_CONNECTORS_CONFIG, LTX2_TRANSFORMER_CONFIG, projectedWidth } from "./config.ts";
import { ltx2Connectors, ltx2Projection } from "./connectors.ts";
import { LTX2_FILES } from "./layouts.ts";
import { ltx2Times } from "./modulation.ts";
import { ltx2Context, ltx2Transformer } from "./transformer.ts";

const [DIM, AUDIO, TEXT, STATES] = [4096, 2048, 3840, 49];
/** Layers, of the 48 that are alike. */
const LAYERS = 2;

interface Widths {
  readonly query: number;
  readonly context?: number;
  readonly inner?: number;
}

function attention(
  name: string,
  { query, context = query, inner = query }: Widths,
  heads: number,
): Shapes {
  return {
    ...layer(`${name}.to_q`, inner, query),
    ...layer(`${name}.to_k`, inner, context),
    ...layer(`${name}.to_v`, inner, context),
    ...layer(`${name}.to_out.0`, query, inner),
    [`${name}.q_norm.weight`]: [inner],
    [`${name}.k_norm.weight`]: [inner],
    ...heads > 0 && layer(`${name}.to_gate_logits`, heads, query),
  };
}

function feedForward(name: string, dim: number): Shapes {
  return { ...layer(`${name}.net.0.proj`, 4 * dim, dim), ...layer(`${name}.net.2`, dim, 4 * dim) };
}

function embedder(name: string, dim: number, rows: number): Shapes {
  return {
    ...layer(`${name}.emb.timestep_embedder.linear_1`, dim, 256),
    ...layer(`${name}.emb.timestep_embedder.linear_2`, dim, dim),
    ...layer(`${name}.linear`, rows * dim, dim),
  };
}

/** Source: stable-diffusion.cpp's `ltxv.hpp`. */
function transformer(isLater: boolean): Shapes {
  const [rows, heads] = isLater ? [9, 32] : [6, 0];
  return {
    ...layer("patchify_proj", DIM, 128),
    ...layer("audio_patchify_proj", AUDIO, 128),
    ...embedder("adaln_single", DIM, rows),
    ...embedder("audio_adaln_single", AUDIO, rows),
    ...embedder("av_ca_video_scale_shift_adaln_single", DIM, 4),
    ...embedder("av_ca_audio_scale_shift_adaln_single", AUDIO, 4),
    ...embedder("av_ca_a2v_gate_adaln_single", DIM, 1),
    ...embedder("av_ca_v2a_gate_adaln_single", AUDIO, 1),
    ...isLater
      ? {
        ...embedder("prompt_adaln_single", DIM, 2),
        ...embedder("audio_prompt_adaln_single", AUDIO, 2),
      }
      : {
        ...layer("caption_projection.linear_1", DIM, TEXT),
        ...layer("caption_projection.linear_2", DIM, DIM),
        ...layer("audio_caption_projection.linear_1", AUDIO, TEXT),
        ...layer("audio_caption_projection.linear_2", AUDIO, AUDIO),
      },
    ...repeated(LAYERS, (i) =>
      prefixed(`transformer_blocks.${i}.`, {
        ...attention("attn1", { query: DIM }, heads),
        ...attention("attn2", { query: DIM }, heads),
        ...attention("audio_attn1", { query: AUDIO }, heads),
        ...attention("audio_attn2", { query: AUDIO }, heads),
        ...attention("audio_to_video_attn", { query: DIM, context: AUDIO, inner: AUDIO }, heads),
        ...attention("video_to_audio_attn", { query: AUDIO, context: DIM }, heads),
        ...feedForward("ff", DIM),
        ...feedForward("audio_ff", AUDIO),
        "scale_shift_table": [rows, DIM],
        "audio_scale_shift_table": [rows, AUDIO],
        "scale_shift_table_a2v_ca_video": [5, DIM],
        "scale_shift_table_a2v_ca_audio": [5, AUDIO],
        ...isLater && {
          "prompt_scale_shift_table": [2, DIM],
          "audio_prompt_scale_shift_table": [2, AUDIO],
        },
      })),
    "scale_shift_table": [2, DIM],
    "audio_scale_shift_table": [2, AUDIO],
    ...layer("proj_out", 128, DIM),
    ...layer("audio_proj_out", 128, AUDIO),
  };
}

function connectors(isLater: boolean): Shapes {
  const widths = isLater ? [DIM, AUDIO] : [TEXT, TEXT];
  return Object.assign(
    {},
    ...["video", "audio"].map((modality, i) => {
      const dim = widths[i]!;
      const name = `${modality}_embeddings_connector`;
      return {
        [`${name}.learnable_registers`]: [128, dim],
        ...repeated(2, (block) => {
          const place = `${name}.transformer_1d_blocks.${block}`;
          return {
            ...attention(`${place}.attn1`, { query: dim }, isLater ? 32 : 0),
            ...feedForward(`${place}.ff`, dim),
          };
        }),
      };
    }),
  );
}

function projections(isLater: boolean): Shapes {
  const name = "text_embedding_projection";
  return isLater
    ? {
      ...layer(`${name}.video_aggregate_embed`, DIM, STATES * TEXT),
      ...layer(`${name}.audio_aggregate_embed`, AUDIO, STATES * TEXT),
    }
    : { [`${name}.aggregate_embed.weight`]: [TEXT, STATES * TEXT] };
}

const opened = (shapes: Shapes) => openPublished(shapes, LTX2_FILES.formats);

for (const isLater of [false, true]) {
  const model = isLater ? "LTX-2.3" : "LTX-2";
  Deno.test(`${model}'s transformer in a file of its own loads with nothing unmatched and nothing missing, with or without a prefix`, () => {
    for (const prefix of ["", "model.diffusion_model."]) {
      const { graph, input, weights, json } = opened(prefixed(prefix, transformer(isLater)));
      const config = LTX2_TRANSFORMER_CONFIG.parse(json);
      const { gated_attn, cross_attn_mod, use_prompt_embeddings, perturbed_attn } = config;
      const later = [gated_attn, cross_attn_mod, !use_prompt_embeddings, perturbed_attn];
      assert.deepEqual(later, new Array(4).fill(isLater));
      assert.deepEqual([config.attention_head_dim, config.audio_attention_head_dim], [128, 64]);
      const text = isLater ? [DIM, AUDIO] : [TEXT, TEXT];
      const rotary = (tokens: number, dim: number) => {
        const table = input([tokens, dim / 2]);
        return { cos: table, sin: table };
      };
      ltx2Transformer(graph, config, weights.root, {
        sample: { video: input([1, 8, 128]), audio: input([1, 5, 128]) },
        context: ltx2Context(config, weights.root, {
          video: input([1, 16, text[0]!]),
          audio: input([1, 16, text[1]!]),
        }),
        positions: {
          video: rotary(8, DIM),
          audio: rotary(5, AUDIO),
          videoCross: rotary(8, AUDIO),
          audioCross: rotary(5, AUDIO),
        },
        times: ltx2Times(graph, config, weights.root, [1000, 500]),
        step: input([1], "u32"),
      });
      assert.deepEqual(weights.unused, []);
    }
  });

  Deno.test(`${model}'s connectors load from a file of their own and from a whole checkpoint, where only the projections have no prefix`, () => {
    for (const prefix of ["", "model.diffusion_model."]) {
      const shapes = { ...prefixed(prefix, connectors(isLater)), ...projections(isLater) };
      const { graph, input, weights, json, className } = opened(shapes);
      assert.equal(className, "LTX2TextConnectors");
      const config = LTX2_CONNECTORS_CONFIG.parse(json);
      assert.deepEqual([config.caption_channels, config.text_proj_in_factor], [TEXT, STATES]);
      assert.equal(projectedWidth(config, "audio"), isLater ? AUDIO : TEXT);
      const states = Array.from({ length: STATES }, () => input([1, 4, TEXT]));
      const projected = ltx2Projection(config, weights.root, states, input([1, 4, 1]));
      const sources = { video: input([1, 128], "u32"), audio: input([1, 128], "u32") };
      ltx2Connectors(config, weights.root, projected, sources);
      assert.deepEqual([...weights.unused], [], graph.name);
    }
  });

  Deno.test(`a whole checkpoint of ${model} holds its transformer and its connectors`, () => {
    const own = { ...transformer(isLater), ...connectors(isLater) };
    const shapes = { ...prefixed("model.diffusion_model.", own), ...projections(isLater) };
    const found = recognise(memoryTensors(shapes), LTX2_FILES.formats);
    const names = found.map(({ format }) => format.component);
    assert.deepEqual(names, ["transformer", "connectors"]);
    for (const { format, tensors } of found) format.config(tensors);
  });
}

Deno.test("Gemma 3's file is known under every program's names, and LTX-2 sees all states of it", () => {
  const language = languageModel({
    ...{ layers: 2, vocabulary: 262208, dim: TEXT, wide: 15360, queries: 4096, keys: 2048 },
  });
  const norms = repeated(2, (i) =>
    prefixed(`layers.${i}.`, {
      "self_attn.q_norm.weight": [256],
      "self_attn.k_norm.weight": [256],
      "pre_feedforward_layernorm.weight": [TEXT],
      "post_feedforward_layernorm.weight": [TEXT],
    }));
  const wrappers = ["model.language_model.", "language_model.model.", "model.", ""];
  for (const wrapper of wrappers) {
    const shapes = prefixed(wrapper, { ...language, ...norms });
    const { graph, input, weights, json, className } = opened(shapes);
    assert.equal(className, "Gemma3ForConditionalGeneration");
    const config = GEMMA3_CONFIG.parse(json);
    assert.deepEqual([config.head_dim, config.num_attention_heads], [256, 16]);
    assert.deepEqual(config.rope.full_attention, { theta: 1e6, factor: 8 });
    assert.equal(config.sliding_window, 1024);
    gemma3Encoder(graph, config, weights.root, input([1, 7, TEXT]));
    const unused = weights.unused.filter((name) => !name.endsWith("embed_tokens.weight"));
    assert.deepEqual(unused, []);
  }
});

Deno.test("LTX2_FILES knows distilled models by the name of the file, and where the other components are", () => {
  const of = (path: string, projects: boolean) =>
    LTX2_FILES.defaults({ use_prompt_embeddings: projects }, path);
  const [dev, distilled, first] = [
    of("/a/ltx-2.3-22b-dev-Q4_K_M.gguf", false),
    of("/a/ltx-2.3-22b-distilled.safetensors", false),
    of("/a/ltx-2-19b-dev.safetensors", true),
  ];
  assert.deepEqual([dev, distilled, first].map(({ repositories }) => repositories[0]), [
    "diffusers/LTX-2.3-Diffusers",
    "diffusers/LTX-2.3-Distilled-Diffusers",
    "Lightricks/LTX-2",
  ]);
  assert.deepEqual([dev.scheduler["use_dynamic_shifting"], distilled.scheduler["shift"]], [
    true,
    1,
  ]);
  assert.deepEqual(dev.needs, ["connectors", "audio_vae", "vocoder"]);
});
