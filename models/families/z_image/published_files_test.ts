/** Files as people have them: all names and shapes of Z-Image's published ControlNets, without their numbers. */
import assert from "node:assert/strict";
import { LARGE, repeated } from "../../../tests/support/published_shapes.ts";
import { type MemoryTensor, memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { safetensorsHeader } from "../../../tests/support/safetensors_header.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { ALL_TOKENS } from "../../sharing/token_split.ts";
import { parseConfig } from "../../config.ts";
import { PATCH_KEY, Z_IMAGE_CONTROLNET_CONFIG, Z_IMAGE_TRANSFORMER_CONFIG } from "./config.ts";
import { controlStacks, ZImageControl } from "./control.ts";
import { Z_IMAGE_FILES } from "./layouts.ts";
import { controlTable } from "./modulation.ts";

const DIM = 3840;
type Tensors = Record<string, MemoryTensor>;

/** A block as the transformer has it. */
function block(name: string): Tensors {
  const matrices = ["to_q", "to_k", "to_v", "to_out.0"];
  return {
    ...Object.fromEntries(
      matrices.map((matrix) => [`${name}.attention.${matrix}.weight`, [DIM, DIM]]),
    ),
    [`${name}.attention.norm_q.weight`]: [128],
    [`${name}.attention.norm_k.weight`]: [128],
    [`${name}.feed_forward.w1.weight`]: [10240, DIM],
    [`${name}.feed_forward.w2.weight`]: [DIM, 10240],
    [`${name}.feed_forward.w3.weight`]: [10240, DIM],
    ...Object.fromEntries(
      ["attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"]
        .map((norm) => [`${name}.${norm}.weight`, [DIM]]),
    ),
    [`${name}.adaLN_modulation.0.weight`]: [4 * DIM, 256],
    [`${name}.adaLN_modulation.0.bias`]: [4 * DIM],
  };
}

/** A block of a ControlNet that begins beside the transformer's. */
function besideBlock(name: string, i: number): Tensors {
  const layer = (part: string): Tensors => ({
    [`${name}.${i}.${part}.weight`]: [DIM, DIM],
    [`${name}.${i}.${part}.bias`]: [DIM],
  });
  return {
    ...block(`${name}.${i}`),
    ...layer("after_proj"),
    ...i === 0 ? layer("before_proj") : {},
  };
}

/**
 * Of the first one a listing is public, of 136 tensors (the `z_image_control_layout()` of a loader that takes only that
 * file). The others have the names that VideoX-Fun gives them, which publishes them, with its configurations; the test
 * compares the size of the file that they make with the published one's.
 */
function controlNet(layers: number, channels: number): Tensors {
  return {
    [`control_all_x_embedder.${PATCH_KEY}.weight`]: [DIM, 4 * channels],
    [`control_all_x_embedder.${PATCH_KEY}.bias`]: [DIM],
    ...repeated(layers, (i) => besideBlock("control_layers", i)),
  };
}

const REFINERS = repeated(2, (i) => besideBlock("control_noise_refiner", i));

const TRANSFORMER: Tensors = {
  "x_pad_token": [1, DIM],
  "t_embedder.mlp.0.weight": [1024, 256],
  "t_embedder.mlp.0.bias": [1024],
  "t_embedder.mlp.2.weight": [256, 1024],
  "t_embedder.mlp.2.bias": [256],
};

Deno.test("all tensors of Z-Image's ControlNets are known and used: Union, 2.0, 2.1 and its lite one", () => {
  const untrained = {
    format: "BF16",
    shape: [DIM, DIM],
    bytes: new Uint8Array(2 * DIM * DIM),
  };
  const published: [
    tensors: Tensors,
    places: number[],
    refiner: string | null,
    bytes?: number,
  ][] = [
    [
      { ...controlNet(6, 16), ...repeated(2, (i) => block(`control_noise_refiner.${i}`)) },
      [0, 5, 10, 15, 20, 25],
      null,
    ],
    [
      {
        ...controlNet(15, 33),
        ...REFINERS,
        "control_noise_refiner.0.before_proj.weight": untrained,
      },
      Array.from({ length: 15 }, (_, i) => 2 * i),
      "control_layers",
    ],
    [
      { ...controlNet(15, 33), ...REFINERS },
      Array.from({ length: 15 }, (_, i) => 2 * i),
      "control_noise_refiner",
      6_712_485_600,
    ],
    [
      { ...controlNet(3, 33), ...REFINERS },
      [0, 10, 20],
      "control_noise_refiner",
      2_016_627_488,
    ],
  ];
  assert.equal(Object.keys(published[0]![0]).length, 136);
  for (const [tensors, steered, refiner, bytes] of published) {
    if (bytes) assert.equal(safetensorsHeader(tensors, "other").fileSize, bytes);
    const [found, ...others] = recognise(memoryTensors(tensors), Z_IMAGE_FILES.formats);
    assert.ok(found && others.length === 0);
    assert.equal(found.format.className, "ZImageControlNetModel");
    const json = found.format.config(found.tensors);
    const config = parseConfig(Z_IMAGE_CONTROLNET_CONFIG, json, "config.json");
    assert.deepEqual(config.control_layers_places, steered);
    assert.deepEqual([config.add_control_noise_refiner, config.n_heads], [refiner, 30]);
    const control = new Weights(found.tensors);
    const own = new Weights(memoryTensors(TRANSFORMER));
    const graph = new Graph("model", LARGE);
    const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
    const transformer = parseConfig(Z_IMAGE_TRANSFORMER_CONFIG, {}, "config.json");
    const roots = { weights: own.root, control: control.root };
    const modulation = controlTable(
      ...[transformer, own.root, control.root] as const,
      controlStacks(config),
      input(1, 256),
    );
    const places = (tokens: number) => ({
      rotary: { cos: input(tokens, 64), sin: input(tokens, 64) },
      split: ALL_TOKENS,
    });
    const [image, joint] = [input(1, 32, DIM), input(1, 64, DIM)];
    const net = new ZImageControl(graph, config, roots, {
      ...{ picture: input(1, 32, 4 * config.control_in_dim), modulation, scale: input(1) },
    });
    let refined = net.refine(image, places(32));
    for (const i of [0, 1]) refined = net.withRefiner(refined, i, (x) => x);
    let beside = net.join(joint, joint);
    for (let layer = 0; layer < 30; layer++) {
      const given = { x: joint, control: beside };
      beside = net.afterLayer(given, layer, places(64)).control!;
    }
    const spare = refiner === "control_layers" ? /^control_noise_refiner\./ : /^$/;
    assert.deepEqual(control.unused.filter((name) => !spare.test(name)), []);
  }
});
