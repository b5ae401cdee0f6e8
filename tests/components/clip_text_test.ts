/** CLIP's text towers against the reference. */
import assert from "node:assert/strict";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import { parseConfig } from "../../models/config.ts";
import { openClipTensors } from "../../models/text_encoders/clip_formats.ts";
import { clipPromptEncoder } from "../../models/text_encoders/clip_prompt.ts";
import { CLIP_TEXT_CONFIG, clipTextEncoder } from "../../models/text_encoders/clip_text.ts";
import type { Tokenizer } from "../../models/tokenizers/mod.ts";
import type { TextEncoder } from "../../models/text_encoders/text_encoder.ts";
import {
  Checkpoint,
  type Device,
  type InputSpec,
  type TensorSource,
  Weights,
} from "../../runtime/mod.ts";
import { assertClose, Golden, type Values } from "../support/golden.ts";
import { type InputValues, ModelRun, openTestDevice } from "../support/model_run.ts";

const GATE = 1e-4;
const PLAIN = { syntax: "plain" } as const;
const [BOS, EOS] = [97, 98];

/** What the towers of the goldens need of a tokenizer. */
const TOKENIZER: Tokenizer = {
  encode: () => [BOS, EOS],
  decode: () => "",
  vocabSize: 99,
  padId: 0,
  eosId: EOS,
};

async function encode(
  device: Device,
  weights: Weights,
  encoder: TextEncoder,
  ids: readonly number[][],
  tokenWeights?: readonly number[][],
): Promise<Values> {
  const rows = ids[0]!.length;
  const values = encoder.values(ids, rows, tokenWeights);
  const inputs = Object.entries(encoder.inputs(ids.length, rows)).map(([name, spec]) => {
    const { shape, dtype } = spec as InputSpec;
    return [name, { shape, dtype, data: values[name]! } as InputValues];
  });
  using run = await ModelRun.prepare(
    device,
    weights,
    Object.fromEntries(inputs),
    (graph, inputs) => ({ all: encoder.trace(inputs, graph) }),
  );
  await run.run();
  return await run.read("all");
}

/** Checks what a pipeline takes of a tower: states of every kind, and the vector that sums a text up. */
async function checkTower(golden: Golden, source: TensorSource): Promise<void> {
  const config = parseConfig(CLIP_TEXT_CONFIG, golden.config(), "config.json");
  const weights = new Weights(source);
  const device = await openTestDevice();
  const { shape: [count, places], data } = golden.tensor("texts", "input_ids");
  const ids = Array.from(
    { length: count! },
    (_, i) => Array.from(data).slice(i * places!, (i + 1) * places!),
  );
  const isPooled = golden.call("texts").args["isProjected"] === true;
  const expected = (name: string) => golden.tensor("texts", name);
  try {
    for (
      const [name, skippedLayers, isNormed] of [
        ["last", 0, true],
        ["normed1", 1, true],
        ["raw1", 1, false],
        ["raw2", 2, false],
      ] as const
    ) {
      const options = { skippedLayers, isNormed, isPooled, ...PLAIN };
      const encoder = clipPromptEncoder({ config, weights }, TOKENIZER, options);
      const all = await encode(device, weights, encoder, ids);
      const size = places! * config.hidden_size;
      const width = all.data.length / count!;
      const part = (from: number, to: number) =>
        ids.flatMap((_, i) => Array.from(all.data).slice(i * width + from, i * width + to));
      assertClose(name, { ...expected(name), data: part(0, size) }, expected(name), GATE);
      if (!isPooled) continue;
      const pooled = { ...expected("pooled"), data: part(size, width) };
      assertClose("pooled", pooled, expected("pooled"), GATE);
    }
    if (isPooled) return;
    const pooled = await encode(device, weights, clipTextEncoder({ config, weights }, 0), ids);
    assertClose("pooled", pooled, expected("pooled"), GATE);
  } finally {
    weights.destroy();
    device.destroy();
  }
}

Deno.test("clipPromptEncoder() gives the states of CLIP-L after chosen layers, with and without the final norm", async () => {
  const golden = new Golden("clip_text/large");
  using checkpoint = golden.checkpoint();
  await checkTower(golden, checkpoint);
});

Deno.test("clipPromptEncoder() gives the states of OpenCLIP's bigG, and its projected vector behind them", async () => {
  const golden = new Golden("clip_text/giant");
  using checkpoint = golden.checkpoint();
  await checkTower(golden, checkpoint);
});

Deno.test("openClipTensors() gives OpenCLIP's tensors the names and the order that transformers has", async () => {
  const golden = new Golden("clip_text/open_clip");
  using checkpoint = Checkpoint.open(`${golden.folder}/open_clip.safetensors`);
  await checkTower(golden, openClipTensors(viewLayout(checkpoint, undefined, "model.")));
});

Deno.test("clipPromptEncoder() sums up the first text of a prompt of several, at its first end token", () => {
  const golden = new Golden("clip_text/giant");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  const options = { skippedLayers: 1, isNormed: false, isPooled: true, ...PLAIN };
  const texts = [[97, 5, 6, 98, 98], [97, 98, 0]];
  const prompts = [
    [0, 1].flatMap((text) => [...texts[text]!, ...new Array(13 - texts[text]!.length).fill(0)]),
    [1, 0].flatMap((text) => [...texts[text]!, ...new Array(13 - texts[text]!.length).fill(0)]),
  ];
  for (const eos of [98, 2, null]) {
    const json = { ...golden.config() as object, eos_token_id: eos };
    const config = parseConfig(CLIP_TEXT_CONFIG, json, "config.json");
    const encoder = clipPromptEncoder({ config, weights }, TOKENIZER, options);
    assert.deepEqual(encoder.values(prompts, 26)["ends"], [3, 26 + 1]);
  }
});

for (const syntax of ["plain", "a1111", "comfyui"] as const) {
  Deno.test(`clipPromptEncoder() weighs the states of prompts of several texts: ${syntax}`, async () => {
    const golden = new Golden("prompt_weights/tower");
    using checkpoint = golden.checkpoint();
    const weights = new Weights(checkpoint);
    const config = parseConfig(CLIP_TEXT_CONFIG, golden.config(), "config.json");
    const options = { skippedLayers: 1, isNormed: false, isPooled: true, syntax };
    const encoder = clipPromptEncoder({ config, weights }, TOKENIZER, options);
    const device = await openTestDevice();
    const expected = (name: string) => golden.tensor("prompts", name);
    const prompts = (name: string) => {
      const data = Array.from(expected(name).data);
      return [data.slice(0, data.length / 2), data.slice(data.length / 2)];
    };
    try {
      const given = prompts("weights");
      const all = await encode(device, weights, encoder, prompts("input_ids"), given);
      const size = 26 * config.hidden_size;
      const width = size + config.projection_dim;
      const parts = [0, 1].map((i) => Array.from(all.data).slice(i * width, (i + 1) * width));
      const states = { ...expected(syntax), data: parts.flatMap((own) => own.slice(0, size)) };
      assertClose(syntax, states, expected(syntax), GATE);
      const pooled = { ...expected("pooled"), data: parts.flatMap((own) => own.slice(size)) };
      assertClose("pooled", pooled, expected("pooled"), GATE);
      const unweighted = await encode(device, weights, encoder, prompts("input_ids"));
      assertClose(
        "without weights",
        {
          ...expected("plain"),
          data: [0, 1].flatMap((i) =>
            Array.from(unweighted.data).slice(i * width, i * width + size)
          ),
        },
        expected("plain"),
        GATE,
      );
    } finally {
      weights.destroy();
      device.destroy();
    }
  });
}

Deno.test("clipPromptEncoder() takes the vectors of ids beyond the vocabulary, and finds the end before them", () => {
  const golden = new Golden("clip_text/giant");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  const config = parseConfig(CLIP_TEXT_CONFIG, golden.config(), "config.json");
  const row = Float32Array.from({ length: config.hidden_size }, (_, i) => i + 1);
  const learnt = { row: (id: number) => row.map((value) => value * (id - 98)) };
  const options = { skippedLayers: 1, isNormed: false, isPooled: true, ...PLAIN };
  const encoder = clipPromptEncoder({ config, weights }, TOKENIZER, {
    ...options,
    embeddings: learnt,
  });
  const ids = [BOS, 99, 5, 100, EOS, ...new Array<number>(8).fill(0)];
  const { embeddings, ends } = encoder.values([ids], 13);
  const at = (place: number) =>
    Array.from(embeddings!).slice(place * config.hidden_size, (place + 1) * config.hidden_size);
  assert.deepEqual(at(1), [...row]);
  assert.deepEqual(at(3), [...row].map((value) => 2 * value));
  const own = weights.readRows("text_model.embeddings.token_embedding.weight", [99, 192], [5]);
  assert.deepEqual(at(2), [...own]);
  assert.deepEqual(ends, [4]);
});

Deno.test("clipPromptEncoder() refuses more layers to skip than the tower has", async () => {
  const golden = new Golden("clip_text/large");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  const config = parseConfig(CLIP_TEXT_CONFIG, golden.config(), "config.json");
  const options = { skippedLayers: 4, isNormed: true, isPooled: false, ...PLAIN };
  const encoder = clipPromptEncoder({ config, weights }, TOKENIZER, options);
  const device = await openTestDevice();
  try {
    await assert.rejects(encode(device, weights, encoder, [new Array<number>(13).fill(1)]), {
      message: "Cannot take the states after layer -1: the text encoder has 3 layers",
    });
  } finally {
    device.destroy();
  }
});
