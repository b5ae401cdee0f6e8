/** Anima's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { LARGE, layer, repeated, type Shapes } from "../../../tests/support/published_shapes.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { animaConditioner } from "./conditioner.ts";
import { ANIMA_CONDITIONER_CONFIG, ANIMA_TRANSFORMER_CONFIG } from "./config.ts";
import { ANIMA_FILES } from "./layouts.ts";
import { animaTransformer, modulationTables } from "./transformer.ts";

const DIM = 2048;
const TEXT_DIM = 1024;

const matrix = (name: string, rows: number, columns: number): Shapes => ({
  [`${name}.weight`]: [rows, columns],
});

function attention(name: string, seen: number): Shapes {
  return {
    ...matrix(`${name}.q_proj`, DIM, DIM),
    ...matrix(`${name}.k_proj`, DIM, seen),
    ...matrix(`${name}.v_proj`, DIM, seen),
    ...matrix(`${name}.output_proj`, DIM, DIM),
    [`${name}.q_norm.weight`]: [128],
    [`${name}.k_norm.weight`]: [128],
  };
}

function modulation(name: string, rows: number): Shapes {
  return { ...matrix(`${name}.1`, 256, DIM), ...matrix(`${name}.2`, rows, 256) };
}

/** Source: Cosmos-Predict2's code, whose names diffusers' converters of single files and LoRAs read. */
const TRANSFORMER: Shapes = {
  ...matrix("x_embedder.proj.1", DIM, 68),
  ...matrix("t_embedder.1.linear_1", DIM, DIM),
  ...matrix("t_embedder.1.linear_2", 3 * DIM, DIM),
  "t_embedding_norm.weight": [DIM],
  ...repeated(28, (i) => ({
    ...attention(`blocks.${i}.self_attn`, DIM),
    ...attention(`blocks.${i}.cross_attn`, TEXT_DIM),
    ...matrix(`blocks.${i}.mlp.layer1`, 4 * DIM, DIM),
    ...matrix(`blocks.${i}.mlp.layer2`, DIM, 4 * DIM),
    ...modulation(`blocks.${i}.adaln_modulation_self_attn`, 3 * DIM),
    ...modulation(`blocks.${i}.adaln_modulation_cross_attn`, 3 * DIM),
    ...modulation(`blocks.${i}.adaln_modulation_mlp`, 3 * DIM),
  })),
  ...modulation("final_layer.adaln_modulation", 2 * DIM),
  ...matrix("final_layer.linear", 64, DIM),
};

const CONDITIONER: Shapes = {
  "embed.weight": [32128, TEXT_DIM],
  ...layer("out_proj", TEXT_DIM, TEXT_DIM),
  "norm.weight": [TEXT_DIM],
  ...repeated(6, (i) => ({
    ...Object.assign(
      {},
      ...["self_attn", "cross_attn"].flatMap((name) => [
        ...["q", "k", "v", "o"].map((part) =>
          matrix(`blocks.${i}.${name}.${part}_proj`, TEXT_DIM, TEXT_DIM)
        ),
        {
          [`blocks.${i}.${name}.q_norm.weight`]: [64],
          [`blocks.${i}.${name}.k_norm.weight`]: [64],
        },
        { [`blocks.${i}.norm_${name}.weight`]: [TEXT_DIM] },
      ]),
    ),
    [`blocks.${i}.norm_mlp.weight`]: [TEXT_DIM],
    ...layer(`blocks.${i}.mlp.0`, 4 * TEXT_DIM, TEXT_DIM),
    ...layer(`blocks.${i}.mlp.2`, TEXT_DIM, 4 * TEXT_DIM),
  })),
};

Deno.test("Anima's single file loads with nothing unmatched and nothing missing, with both prefixes", () => {
  const counts = [TRANSFORMER, CONDITIONER].map((shapes) => Object.keys(shapes).length);
  assert.deepEqual(counts, [567, 118]);
  for (const prefix of ["net.", "model.diffusion_model."]) {
    const shapes = Object.fromEntries([
      ...Object.entries(TRANSFORMER).map(([name, shape]) => [prefix + name, shape]),
      ...Object.entries(CONDITIONER).map((
        [name, shape],
      ) => [`${prefix}llm_adapter.${name}`, shape]),
    ]);
    const found = recognise(memoryTensors(shapes), ANIMA_FILES.formats);
    assert.deepEqual(
      found.map(({ format }) => format.className),
      ["CosmosTransformer3DModel", "AnimaTextConditioner"],
    );
    const [own, beside] = found.map(({ format, tensors }) => ({
      json: format.config(tensors),
      weights: new Weights(tensors),
    })) as [{ json: object; weights: Weights }, { json: object; weights: Weights }];
    const config = ANIMA_TRANSFORMER_CONFIG.parse(own.json);
    assert.deepEqual(config, ANIMA_TRANSFORMER_CONFIG.parse({ extra_pos_embed_type: null }));
    const conditioner = ANIMA_CONDITIONER_CONFIG.parse(beside.json);
    assert.deepEqual(conditioner, ANIMA_CONDITIONER_CONFIG.parse({}));
    const graph = new Graph("test", LARGE);
    const input = (shape: number[], dtype: "f32" | "u32" = "f32") =>
      graph.use(new DeviceTensor("input", shape, dtype));
    const context = animaConditioner(graph, conditioner, beside.weights.root, {
      states: input([1, 5, TEXT_DIM]),
      embeddings: input([1, 512, TEXT_DIM]),
      length: input([1], "u32"),
      mask: input([1, 512, 1]),
    });
    animaTransformer(graph, config, own.weights.root, {
      context,
      sample: input([1, 6, 64]),
      grid: { rows: 2, columns: 3 },
      step: input([1], "u32"),
      ...modulationTables(config, own.weights.root, input([8, DIM])),
    });
    const unused = own.weights.unused.filter((name) => !name.startsWith("llm_adapter."));
    assert.deepEqual(unused, []);
    // Its rows are read from the file.
    assert.deepEqual(beside.weights.unused, ["embed.weight"]);
  }
});
