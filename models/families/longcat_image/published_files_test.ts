/** LongCat-Image's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { hiddenSize } from "../../config.ts";
import { flux1Context } from "../flux1/blocks.ts";
import { EMBEDDING_CHANNELS, modulationOf } from "../flux1/modulation.ts";
import { flux1Transformer } from "../flux1/transformer.ts";
import { LONGCAT_IMAGE_TRANSFORMER_CONFIG } from "./config.ts";
import { LONGCAT_IMAGE_FILES } from "./layouts.ts";
import { longCatImagePlaces, longCatImageTables } from "./transformer.ts";

const DIM = 3072;
const TEXT_DIM = 3584;

/** All tensors of ComfyUI's file. Source: FLUX.1's names in ComfyUI's `Flux`, without what sums prompts up. */
function transformer(norm: "scale" | "weight"): Shapes {
  const norms = (name: string): Shapes => ({
    [`${name}.query_norm.${norm}`]: [128],
    [`${name}.key_norm.${norm}`]: [128],
  });
  return {
    ...layer("time_in.in_layer", DIM, 256),
    ...layer("time_in.out_layer", DIM, DIM),
    ...layer("txt_in", DIM, TEXT_DIM),
    ...layer("img_in", DIM, 64),
    ...repeated(10, (i) =>
      Object.assign(
        {},
        ...["img", "txt"].map((stream) =>
          prefixed(`double_blocks.${i}.${stream}_`, {
            ...layer("mod.lin", 6 * DIM, DIM),
            ...layer("attn.qkv", 3 * DIM, DIM),
            ...norms("attn.norm"),
            ...layer("attn.proj", DIM, DIM),
            ...layer("mlp.0", 4 * DIM, DIM),
            ...layer("mlp.2", DIM, 4 * DIM),
          })
        ),
      )),
    ...repeated(20, (i) =>
      prefixed(`single_blocks.${i}.`, {
        ...layer("linear1", 7 * DIM, DIM),
        ...layer("linear2", DIM, 5 * DIM),
        ...norms("norm"),
        ...layer("modulation.lin", 3 * DIM, DIM),
      })),
    ...layer("final_layer.adaLN_modulation.1", 2 * DIM, DIM),
    ...layer("final_layer.linear", 64, DIM),
  };
}

Deno.test("LongCat-Image's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  const files = [["", "scale"], ["model.diffusion_model.", "weight"]] as const;
  for (const [prefix, norm] of files) {
    const shapes = prefixed(prefix, transformer(norm));
    const { graph, input, weights, json } = openPublished(shapes, LONGCAT_IMAGE_FILES.formats);
    const { root } = weights;
    const config = LONGCAT_IMAGE_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(
      config,
      LONGCAT_IMAGE_TRANSFORMER_CONFIG.parse({ num_layers: 10, num_single_layers: 20 }),
    );
    const tables = longCatImageTables(config, root, input([8, EMBEDDING_CHANNELS]));
    const grid = { rows: 2, columns: 3 };
    flux1Transformer(graph, config, root, {
      context: flux1Context(config, root, input([1, 5, TEXT_DIM])),
      sample: input([1, 6, 64]),
      grids: [grid],
      places: longCatImagePlaces(5, [grid]),
      modulation: modulationOf(tables, input([1], "u32"), hiddenSize(config)),
    });
    assert.deepEqual(weights.unused, []);
  }
});
