/** FLUX.2 dev's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  languageModel,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { MINISTRAL3_CONFIG } from "../../text_encoders/ministral3.ts";
import { qwenEncoder } from "../../text_encoders/qwen.ts";
import { FLUX2_TRANSFORMER_CONFIG, textLayers } from "./config.ts";
import { FLUX2_FILES } from "./layouts.ts";
import { modulationTable } from "./modulation.ts";
import { flux2Context, flux2Transformer } from "./transformer.ts";

const DIM = 6144;
const TEXT_DIM = 5120;

/** All tensors of `flux2-dev.safetensors`. Source: `Flux2` of Black Forest Labs' own code. */
function transformer(): Shapes {
  const embedder = (name: string) => ({
    [`${name}.in_layer.weight`]: [DIM, 256],
    [`${name}.out_layer.weight`]: [DIM, DIM],
  });
  return {
    "img_in.weight": [DIM, 128],
    "txt_in.weight": [DIM, 3 * TEXT_DIM],
    ...embedder("time_in"),
    ...embedder("guidance_in"),
    "double_stream_modulation_img.lin.weight": [6 * DIM, DIM],
    "double_stream_modulation_txt.lin.weight": [6 * DIM, DIM],
    "single_stream_modulation.lin.weight": [3 * DIM, DIM],
    ...repeated(8, (i) =>
      Object.assign(
        {},
        ...["img", "txt"].map((stream) => {
          const name = `double_blocks.${i}.${stream}`;
          return {
            [`${name}_attn.qkv.weight`]: [3 * DIM, DIM],
            [`${name}_attn.norm.query_norm.scale`]: [128],
            [`${name}_attn.norm.key_norm.scale`]: [128],
            [`${name}_attn.proj.weight`]: [DIM, DIM],
            [`${name}_mlp.0.weight`]: [6 * DIM, DIM],
            [`${name}_mlp.2.weight`]: [DIM, 3 * DIM],
          };
        }),
      )),
    ...repeated(48, (i) => ({
      [`single_blocks.${i}.linear1.weight`]: [9 * DIM, DIM],
      [`single_blocks.${i}.linear2.weight`]: [DIM, 4 * DIM],
      [`single_blocks.${i}.norm.query_norm.scale`]: [128],
      [`single_blocks.${i}.norm.key_norm.scale`]: [128],
    })),
    "final_layer.adaLN_modulation.1.weight": [2 * DIM, DIM],
    "final_layer.linear.weight": [128, DIM],
  };
}

/** All tensors of Mistral Small 3.2's language model, and one of its vision tower. Source: `Mistral3Model` of transformers. */
function textEncoder(prefix: string, layers: number): Shapes {
  return {
    "vision_tower.ln_pre.weight": [1024],
    ...prefixed(
      prefix,
      languageModel({
        layers,
        vocabulary: 131072,
        dim: TEXT_DIM,
        wide: 32768,
        queries: 4096,
        keys: 1024,
      }),
    ),
  };
}

const opened = (shapes: Shapes) => openPublished(shapes, FLUX2_FILES.formats);

Deno.test("FLUX.2 dev's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  for (const prefix of ["", "model.diffusion_model."]) {
    const shapes = prefixed(prefix, transformer());
    const { graph, input, weights, json } = opened(shapes);
    const config = FLUX2_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, FLUX2_TRANSFORMER_CONFIG.parse({}));
    flux2Transformer(graph, config, weights.root, {
      context: flux2Context(config, weights.root, input([1, 5, 3 * TEXT_DIM])),
      sample: input([1, 6, 128]),
      grid: { rows: 2, columns: 3 },
      referenceGrids: [],
      modulation: modulationTable(weights.root, input([1, 256]), DIM, input([1, 256])),
    });
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("FLUX.2 dev needs the first thirty layers of Mistral Small's language model, also where a file has no more", () => {
  for (const prefix of ["language_model.model.", "model.language_model.", "model."]) {
    for (const count of [30, 40]) {
      const { graph, input, weights, json } = opened(textEncoder(prefix, count));
      const config = MINISTRAL3_CONFIG.parse(json);
      assert.deepEqual(
        [
          config.model_type,
          config.num_attention_heads,
          config.num_key_value_heads,
          config.rope_theta,
        ],
        ["mistral", 32, 8, 1e9],
      );
      assert.equal(config.frequencies, undefined);
      const inputs = { embeddings: input([1, 7, TEXT_DIM]), lengths: input([1], "u32") };
      const layers = textLayers(config);
      qwenEncoder(graph, config, weights.root, { ...inputs, isRaw: true }, layers);
      const unused = weights.unused.filter((name) => !/layers\.3\d\.|vision_tower/.test(name));
      assert.deepEqual(
        unused.map((name) => name.replace(/^(language_model\.|model\.)+/, "")),
        ["embed_tokens.weight", "norm.weight"],
      );
    }
  }
});
