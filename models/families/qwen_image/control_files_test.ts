/** All names and shapes of Qwen-Image's published ControlNet, without their numbers. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { LARGE, layer, type Shapes } from "../../../tests/support/published_shapes.ts";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { safetensorsHeader } from "../../../tests/support/safetensors_header.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { ALL_TOKENS } from "../../sharing/token_split.ts";
import { parseConfig } from "../../config.ts";
import { QWEN_IMAGE_CONTROLNET_CONFIG } from "./config.ts";
import { qwenImageControl } from "./control.ts";
import { QWEN_IMAGE_FILES } from "./layouts.ts";
import { blockTables, TIMESTEP_CHANNELS } from "./modulation.ts";
import { qwenImageContext } from "./blocks.ts";

const [DIM, TEXT] = [3072, 3584];
/** SHA-256 of the header of InstantX' Union ControlNet, from a program that takes only that file. */
const UNION_HEADER = "82eea2a342aeb3d99dc32f9c084458d5d63d85f1c33b04943199f151affaa8ae";
/**
 * As InstantX publish it; `extra` channels beside those of the picture have the ones for inpainting. The names and shapes
 * of Union are those of the published header, to the byte; those of the other make a file of the published size.
 */
function controlNet(blocks: number, extra = 0): Shapes {
  const square = ["to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0"];
  const norms = ["norm_q", "norm_k", "norm_added_q", "norm_added_k"];
  const all = Array.from({ length: blocks }, (_, i) => {
    const block = `transformer_blocks.${i}`;
    return Object.assign(
      {},
      ...[...square, "to_add_out"].map((name) => layer(`${block}.attn.${name}`, DIM, DIM)),
      ...norms.map((name) => ({ [`${block}.attn.${name}.weight`]: [128] })),
      ...["img", "txt"].flatMap((stream) => [
        layer(`${block}.${stream}_mod.1`, 6 * DIM, DIM),
        layer(`${block}.${stream}_mlp.net.0.proj`, 4 * DIM, DIM),
        layer(`${block}.${stream}_mlp.net.2`, DIM, 4 * DIM),
      ]),
      layer(`controlnet_blocks.${i}`, DIM, DIM),
    ) as Shapes;
  });
  return Object.assign({}, ...all, {
    "txt_norm.weight": [TEXT],
    ...layer("img_in", DIM, 64),
    ...layer("txt_in", DIM, TEXT),
    ...layer("time_text_embed.timestep_embedder.linear_1", DIM, TIMESTEP_CHANNELS),
    ...layer("time_text_embed.timestep_embedder.linear_2", DIM, DIM),
    ...layer("controlnet_x_embedder", DIM, 64 + extra),
  });
}

Deno.test("all tensors of Qwen-Image's ControlNets are known and used: Union, Inpainting", () => {
  const published = [
    ...[[5, 0, 3_536_027_816], [6, 4, 4_234_599_432]] as const,
  ];
  for (const [blocks, extra, bytes] of published) {
    const shapes = controlNet(blocks, extra);
    const { json: header, fileSize } = safetensorsHeader(shapes, "torch");
    assert.equal(fileSize, bytes);
    if (extra === 0) {
      assert.equal(createHash("sha256").update(header).digest("hex"), UNION_HEADER);
    }
    const [found, ...others] = recognise(memoryTensors(shapes), QWEN_IMAGE_FILES.formats);
    assert.ok(found && others.length === 0);
    assert.equal(found.format.className, "QwenImageControlNetModel");
    const json = found.format.config(found.tensors);
    const config = parseConfig(QWEN_IMAGE_CONTROLNET_CONFIG, json, "config.json");
    assert.deepEqual([config.num_layers, config.num_attention_heads], [blocks, 24]);
    assert.equal(config.extra_condition_channels, extra);
    const weights = new Weights(found.tensors);
    const graph = new Graph("model", LARGE);
    const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
    const { begin, after } = qwenImageControl(graph, config, weights.root, {
      context: qwenImageContext(graph, config, weights.root, input(1, 8, TEXT)),
      ...{ sample: input(1, 4, 64), picture: input(1, 4, 64 + extra), scale: input(1) },
      grid: { rows: 2, columns: 2 },
      tables: blockTables(config, weights.root, input(1, TIMESTEP_CHANNELS)),
      step: graph.use(new DeviceTensor("step", [1], "u32")),
    })(ALL_TOKENS, 60);
    let control: typeof begin | undefined = begin;
    for (let block = 0; block < 60; block++) {
      ({ control } = after({ x: input(1, 4, DIM), control }, block));
    }
    assert.deepEqual(weights.unused, []);
  }
});
