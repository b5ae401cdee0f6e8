/** AuraFlow's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { AURAFLOW_TRANSFORMER_CONFIG } from "./config.ts";
import { AURAFLOW_FILES } from "./layouts.ts";
import { auraFlowContext, auraFlowTables, auraFlowTransformer } from "./transformer.ts";

const DIM = 3072;
const WIDE = 8192;

function attention(names: readonly string[]): Shapes {
  return Object.fromEntries(names.map((name) => [`attn.${name}.weight`, [DIM, DIM]]));
}

function feedForward(name: string): Shapes {
  return {
    [`${name}.c_fc1.weight`]: [WIDE, DIM],
    [`${name}.c_fc2.weight`]: [WIDE, DIM],
    [`${name}.c_proj.weight`]: [DIM, WIDE],
  };
}

/** All tensors of AuraFlow 0.3 and of Pony V7. Source: diffusers' `convert_auraflow_transformer_checkpoint_to_diffusers`. */
function transformer(places: number): Shapes {
  return {
    ...layer("t_embedder.mlp.0", DIM, 256),
    ...layer("t_embedder.mlp.2", DIM, DIM),
    "cond_seq_linear.weight": [DIM, 2048],
    ...layer("init_x_linear", DIM, 16),
    "positional_encoding": [1, places, DIM],
    "register_tokens": [1, 8, DIM],
    ...repeated(4, (i) =>
      prefixed(`double_layers.${i}.`, {
        ...attention(["w1q", "w1k", "w1v", "w1o", "w2q", "w2k", "w2v", "w2o"]),
        ...feedForward("mlpC"),
        ...feedForward("mlpX"),
        "modC.1.weight": [6 * DIM, DIM],
        "modX.1.weight": [6 * DIM, DIM],
      })),
    ...repeated(32, (i) =>
      prefixed(`single_layers.${i}.`, {
        ...attention(["w1q", "w1k", "w1v", "w1o"]),
        ...feedForward("mlp"),
        "modCX.1.weight": [6 * DIM, DIM],
      })),
    "modF.1.weight": [2 * DIM, DIM],
    "final_linear.weight": [16, DIM],
  };
}

Deno.test("AuraFlow's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  const files = [["", 1024], ["model.diffusion_model.", 4096]] as const;
  for (const [prefix, places] of files) {
    const shapes = prefixed(prefix, transformer(places));
    const { graph, input, weights, json } = openPublished(shapes, AURAFLOW_FILES.formats);
    const config = AURAFLOW_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, AURAFLOW_TRANSFORMER_CONFIG.parse({ pos_embed_max_size: places }));
    auraFlowTransformer(graph, config, weights.root, {
      context: auraFlowContext(config, weights.root, input([1, 5, 2048])),
      sample: input([1, 6, 16]),
      grid: { rows: 2, columns: 3 },
      ...auraFlowTables(graph, config, weights.root, [1]),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, []);
  }
});
