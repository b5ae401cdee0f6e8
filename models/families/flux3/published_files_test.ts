/** FLUX.3's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import {
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { slice } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { FLUX3_TRANSFORMER_CONFIG } from "./config.ts";
import { FLUX3_FILES } from "./layouts.ts";
import { modesOf, modulationTable } from "./modulation.ts";
import { flux3Context, flux3Transformer } from "./transformer.ts";

const DIM = 3072;
const MODES = ["image", "image_cond", "txt"];

function block(name: string): Shapes {
  return {
    ...Object.fromEntries(
      ["q_proj", "k_proj", "v_proj", "attn_out"]
        .map((layer) => [`${name}.${layer}.weight`, [DIM, DIM]]),
    ),
    [`${name}.norm.query_norm.scale`]: [128],
    [`${name}.norm.key_norm.scale`]: [128],
    [`${name}.mlp_in.weight`]: [6 * DIM, DIM],
    [`${name}.mlp_out.weight`]: [DIM, 3 * DIM],
  };
}

/** All tensors of the single files. Source: `convert_flux3_transformer_checkpoint_to_diffusers` and `Flux3Transformer2DModel`. */
function transformer(isDistilled: boolean): Shapes {
  const embedder = (name: string) => ({
    [`${name}.in_layer.weight`]: [DIM, 256],
    [`${name}.out_layer.weight`]: [DIM, DIM],
  });
  return {
    "emb_in.image.weight": [DIM, 128],
    "emb_in.image_cond.weight": [DIM, 128],
    "txt_in.weight": [DIM, 20480],
    ...embedder("time_in"),
    ...isDistilled && embedder("ref_time_in"),
    ...Object.fromEntries(
      ["early", "single"].flatMap((kind) =>
        MODES.map((mode) => [`${kind}_stream_modulations.${mode}.lin.weight`, [3 * DIM, DIM]])
      ),
    ),
    ...repeated(5, (i) => ({
      ...block(`content_mode_blocks.image.${i}`),
      ...block(`content_mode_blocks.image_cond.${i}`),
      ...block(`txt_mode_blocks.${i}`),
    })),
    ...repeated(28, (i) => block(`single_blocks.${i}`)),
    "final_layer.image.adaLN_modulation.1.weight": [2 * DIM, DIM],
    "final_layer.image.linear.weight": [128, DIM],
  };
}

for (const isDistilled of [false, true]) {
  const kind = isDistilled ? "klein" : "klein base";
  Deno.test(`FLUX.3 Image ${kind}'s single file loads with nothing unmatched and nothing missing, with or without a prefix`, () => {
    assert.equal(Object.keys(transformer(isDistilled)).length, isDistilled ? 359 : 357);
    for (const prefix of ["", "model.diffusion_model."]) {
      const shapes = prefixed(prefix, transformer(isDistilled));
      const { graph, weights, json, input } = openPublished(shapes, FLUX3_FILES.formats);
      const config = FLUX3_TRANSFORMER_CONFIG.parse(json);
      assert.deepEqual(config, FLUX3_TRANSFORMER_CONFIG.parse({ flow_map: isDistilled }));
      const schedule = { timesteps: Float64Array.of(1000, 500) };
      const table = modulationTable(graph, config, weights.root, schedule, modesOf(true));
      const grid = { rows: 2, columns: 3 };
      flux3Transformer(graph, config, weights.root, {
        context: flux3Context(config, weights.root, input([1, 5, 20480])),
        sample: input([1, 6, 128]),
        grid,
        references: input([1, 6, 128]),
        referenceGrids: [grid],
        modulation: slice(table, 0, 0, 1),
      });
      assert.deepEqual(weights.unused, []);
    }
  });
}

Deno.test("FLUX3_FILES knows the distilled model by its layers, and takes no heads of its training", () => {
  const of = (flow_map: boolean) => FLUX3_FILES.defaults({ flow_map }, "flux3.safetensors");
  const [distilled, base] = [of(true), of(false)];
  assert.equal(distilled.className, "Flux3DistilledModularPipeline");
  assert.equal(distilled.repositories[0], "black-forest-labs/flux-3-image-klein");
  assert.equal(base.className, "Flux3ModularPipeline");
  assert.equal(base.repositories[0], "black-forest-labs/flux-3-image-klein-base");
  const trained = { ...transformer(false), "repa_projectors.0.weight": [DIM, DIM] };
  const [found] = recognise(memoryTensors(trained), FLUX3_FILES.formats);
  assert.equal(found!.format.className, "Flux3Transformer2DModel");
});
