/** Ovis-Image's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { hiddenSize } from "../../config.ts";
import { EMBEDDING_CHANNELS, modulationOf } from "../flux1/modulation.ts";
import { flux1Transformer } from "../flux1/transformer.ts";
import { OVIS_IMAGE_TRANSFORMER_CONFIG } from "./config.ts";
import { OVIS_IMAGE_FILES } from "./layouts.ts";
import { ovisImageContext, ovisImagePlaces, ovisImageTables } from "./transformer.ts";

const DIM = 3072;
const WIDE = 4 * DIM;

/** All tensors of ComfyUI's file, or of AIDC-AI's. Source: diffusers' `convert_ovis_image_to_diffusers.py`, and ComfyUI's `Flux`. */
function transformer(text: string, norm: "scale" | "weight"): Shapes {
  const norms = (name: string): Shapes => ({
    [`${name}.query_norm.${norm}`]: [128],
    [`${name}.key_norm.${norm}`]: [128],
  });
  return {
    ...layer("time_in.in_layer", DIM, 256),
    ...layer("time_in.out_layer", DIM, DIM),
    [`${text}_norm.${norm}`]: [2048],
    ...layer(`${text}_in`, DIM, 2048),
    ...layer("img_in", DIM, 64),
    ...repeated(6, (i) =>
      Object.assign(
        {},
        ...["img", "txt"].map((stream) =>
          prefixed(`double_blocks.${i}.${stream}_`, {
            ...layer("mod.lin", 6 * DIM, DIM),
            ...layer("attn.qkv", 3 * DIM, DIM),
            ...norms("attn.norm"),
            ...layer("attn.proj", DIM, DIM),
            ...layer("mlp.gate_proj", WIDE, DIM),
            ...layer("mlp.up_proj", WIDE, DIM),
            ...layer("mlp.down_proj", DIM, WIDE),
          })
        ),
      )),
    ...repeated(27, (i) =>
      prefixed(`single_blocks.${i}.`, {
        ...layer("linear1", 3 * DIM + 2 * WIDE, DIM),
        ...layer("linear2", DIM, DIM + WIDE),
        ...norms("norm"),
        ...layer("modulation.lin", 3 * DIM, DIM),
      })),
    ...layer("final_layer.adaLN_modulation.1", 2 * DIM, DIM),
    ...layer("final_layer.linear", 64, DIM),
  };
}

Deno.test("Ovis-Image's single files load with nothing unmatched and nothing missing, as its authors and ComfyUI name them", () => {
  const files: readonly (readonly [prefix: string, Shapes])[] = [
    ["", transformer("semantic_txt", "weight")],
    ["", transformer("txt", "scale")],
    ["model.diffusion_model.", transformer("txt", "weight")],
  ];
  for (const [prefix, shapes] of files) {
    assert.equal(Object.keys(shapes).length, 397);
    const opened = openPublished(prefixed(prefix, shapes), OVIS_IMAGE_FILES.formats);
    const { graph, input, weights: { root }, weights, json } = opened;
    const config = OVIS_IMAGE_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, OVIS_IMAGE_TRANSFORMER_CONFIG.parse({}));
    const tables = ovisImageTables(config, root, input([8, EMBEDDING_CHANNELS]));
    const grid = { rows: 2, columns: 3 };
    flux1Transformer(graph, config, root, {
      context: ovisImageContext(config, root, input([1, 5, 2048])),
      sample: input([1, 6, 64]),
      grids: [grid],
      places: ovisImagePlaces(5, [grid]),
      kind: "swiglu",
      modulation: modulationOf(tables, input([1], "u32"), hiddenSize(config)),
    });
    assert.deepEqual(weights.unused, []);
  }
});
