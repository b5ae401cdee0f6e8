/** Files as people have them: all names and shapes of Chroma's published checkpoints, without their numbers. */
import assert from "node:assert/strict";
import { LARGE, layer, repeated, type Shapes } from "../../../tests/support/published_shapes.ts";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { hiddenSize, parseConfig } from "../../config.ts";
import { flux1Context } from "../flux1/blocks.ts";
import { flux1Transformer } from "../flux1/transformer.ts";
import { CHROMA_TRANSFORMER_CONFIG } from "./config.ts";
import { CHROMA_FILES } from "./layouts.ts";
import { chromaModulation } from "./modulation.ts";

const [DIM, INNER] = [3072, 5120];
/** Under the names of the Chroma team. */
function original(): Shapes {
  const norms = (name: string): Shapes => ({
    [`${name}.query_norm.scale`]: [128],
    [`${name}.key_norm.scale`]: [128],
  });
  const stream = (name: string) => ({
    ...layer(`${name}_attn.qkv`, 3 * DIM, DIM),
    ...norms(`${name}_attn.norm`),
    ...layer(`${name}_attn.proj`, DIM, DIM),
    ...layer(`${name}_mlp.0`, 4 * DIM, DIM),
    ...layer(`${name}_mlp.2`, DIM, 4 * DIM),
  });
  const network = "distilled_guidance_layer";
  return {
    ...layer("img_in", DIM, 64),
    ...layer("txt_in", DIM, 4096),
    ...layer(`${network}.in_proj`, INNER, 64),
    ...layer(`${network}.out_proj`, DIM, INNER),
    ...repeated(5, (i) => ({
      ...layer(`${network}.layers.${i}.in_layer`, INNER, INNER),
      ...layer(`${network}.layers.${i}.out_layer`, INNER, INNER),
      [`${network}.norms.${i}.scale`]: [INNER],
    })),
    ...repeated(19, (i) => ({
      ...stream(`double_blocks.${i}.img`),
      ...stream(`double_blocks.${i}.txt`),
    })),
    ...repeated(38, (i) => ({
      ...layer(`single_blocks.${i}.linear1`, 7 * DIM, DIM),
      ...layer(`single_blocks.${i}.linear2`, DIM, 5 * DIM),
      ...norms(`single_blocks.${i}.norm`),
    })),
    ...layer("final_layer.linear", 64, DIM),
  };
}

Deno.test("CHROMA_FILES refuses Chroma1-Radiance, and names a model to take instead", () => {
  const tensors = memoryTensors({
    ...original(),
    ...layer("nerf_final_layer_conv.conv", 3, 64),
  });
  const [found] = recognise(tensors, CHROMA_FILES.formats);
  assert.throws(() => found!.format.config(found!.tensors), /Chroma1-Radiance.*take Chroma1-HD/);
});

Deno.test("all tensors of Chroma1-HD are known and used, under the names of its authors", () => {
  const [found, ...others] = recognise(memoryTensors(original()), CHROMA_FILES.formats);
  assert.ok(found && others.length === 0);
  assert.equal(found.format.className, "ChromaTransformer2DModel");
  const json = found.format.config(found.tensors);
  const config = parseConfig(CHROMA_TRANSFORMER_CONFIG, json, "config.json");
  assert.deepEqual([config.num_layers, config.num_single_layers, config.approximator_layers], [
    19,
    38,
    5,
  ]);
  assert.equal(hiddenSize(config), DIM);
  const weights = new Weights(found.tensors);
  const graph = new Graph("model", LARGE);
  const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
  const step = graph.use(new DeviceTensor("step", [1], "u32"));
  flux1Transformer(graph, config, weights.root, {
    context: flux1Context(config, weights.root, input(1, 8, 4096)),
    sample: input(1, 4, 64),
    grids: [{ rows: 2, columns: 2 }],
    modulation: chromaModulation(graph, config, weights.root, [1000, 500], step),
  });
  assert.deepEqual(weights.unused, []);
});
