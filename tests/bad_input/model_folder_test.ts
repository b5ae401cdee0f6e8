import assert from "node:assert/strict";
import { openPipeline } from "../../models/mod.ts";
import {
  type Damage,
  damagedModel,
  fields,
  fill,
  header,
  type JsonFields,
} from "./damaged_model.ts";
import { openTestDevice } from "../support/model_run.ts";

const INDEX = "model_index.json";
const TRANSFORMER = "transformer/config.json";
const WEIGHTS = "transformer/diffusion_pytorch_model.safetensors";
const SHARDS = `${WEIGHTS}.index.json`;
const TEXT = "text_encoder/config.json";
const TEXT_WEIGHTS = "text_encoder/model.safetensors";
const VAE = "vae/config.json";
const VAE_WEIGHTS = "vae/diffusion_pytorch_model.safetensors";
const SCHEDULER = "scheduler/scheduler_config.json";
const TOKENIZER = "tokenizer/tokenizer.json";
const TOKENIZER_CONFIG = "tokenizer/tokenizer_config.json";

/** The first weight of the transformer, f16 [width, 16, 1, 2, 2]. */
const WEIGHT = "patch_embedding.weight";

type Case = [what: string, file: string, damage: Damage, message: RegExp];

const text = (content: string): Damage => ({ text: content });
const firstBytes = (count: number): Damage => ({ bytes: (bytes) => bytes.slice(0, count) });
const weight = (changes: JsonFields): Damage =>
  header((tensors) => ({ ...tensors, [WEIGHT]: { ...tensors[WEIGHT], ...changes } }));
const shards = (map: unknown): Damage => text(JSON.stringify({ weight_map: map }));
const unipc = (changes: JsonFields): Damage =>
  text(JSON.stringify({
    _class_name: "UniPCMultistepScheduler",
    prediction_type: "flow_prediction",
    use_flow_sigmas: true,
    ...changes,
  }));
const without = (key: string): Damage => ({
  json: ({ [key]: _, ...rest }) => rest,
});
const model = (changes: JsonFields): Damage => ({
  json: (json) => ({ ...json, model: { ...json["model"], ...changes } }),
});

/** Folders that are refused when they are opened, before a GPU is asked for anything. */
const OPENING: Case[] = [
  ["is cut", INDEX, text("{"), /model_index\.json: it is not valid JSON/],
  ["is empty", INDEX, text(""), /it is empty/],
  ["is no object", INDEX, text("[]"), /must hold a JSON object, and it holds an array/],
  ["nests deeply", INDEX, text("[".repeat(1e5)), /it is not valid JSON/],
  ["has a deep class", INDEX, fields({ _class_name: nest(1e4) }), /_class_name must be/],
  ["is a Git LFS pointer", INDEX, text("version https://git-lfs.github.com/spec/v1\n"), /git lfs/],
  [
    "names a pipeline of a long name",
    INDEX,
    fields({ _class_name: "x".repeat(5000) }),
    /class "x{70,}…; this program knows WanPipeline/,
  ],
  [
    "names another pipeline",
    INDEX,
    fields({ _class_name: "KandinskyPipeline" }),
    /knows WanPipeline/,
  ],
  ["names a method", INDEX, fields({ _class_name: "toString" }), /class "toString"; this program/],
  ["names no pipeline", INDEX, without("_class_name"), /_class_name must be .* it is missing/],
  ["names no autoencoder", INDEX, without("vae"), /component "vae": .* does not name it; it names/],
  ["has no autoencoder", INDEX, fields({ vae: [null, null] }), /component "vae": .* does not name/],
  [
    "names another autoencoder",
    INDEX,
    fields({ vae: ["diffusers", "AutoencoderKL"] }),
    /names the class "AutoencoderKL"; this program knows AutoencoderKLWan/,
  ],
  [
    "is of two experts",
    INDEX,
    fields({ boundary_ratio: 0.9 }),
    /is 0\.9, .* has no transformer_2;/,
  ],
  ["has a text for a switch", INDEX, fields({ expand_timesteps: "yes" }), /expected boolean/],

  ["lacks a component", "transformer/", "missing", /transformer: it does not exist, .*incomplete/],
  ["lacks its tokenizer", "tokenizer/", "missing", /tokenizer: it does not exist/],
  ["lacks its scheduler", "scheduler/", "missing", /scheduler: it does not exist/],
  ["lacks a configuration", TRANSFORMER, "missing", /transformer.config\.json: it does not exist/],
  ["has another class", TRANSFORMER, fields({ _class_name: "UNet" }), /_class_name is "UNet"/],
  ["has a text for a number", TRANSFORMER, fields({ num_layers: "7" }), /num_layers is "7": inval/],
  [
    "has no heads",
    TRANSFORMER,
    fields({ num_attention_heads: 0 }),
    /num_attention_heads is 0: too/,
  ],
  ["has odd heads", TRANSFORMER, fields({ attention_head_dim: 34 }), /is 34: .*a multiple of 4/],
  [
    "has huge patches",
    TRANSFORMER,
    fields({ patch_size: [1, 1e6, 1e6] }),
    /patch_size\.1 is 10000/,
  ],
  ["has an absurd eps", TRANSFORMER, fields({ eps: 1e300 }), /eps is 1e\+300: too big/],
  ["has another norm", TRANSFORMER, fields({ qk_norm: "layer" }), /qk_norm is "layer"/],
  ["wants images", TRANSFORMER, fields({ image_dim: 1280 }), /image encoder, and it has none;/],
  ["has 1e9 layers", TRANSFORMER, fields({ num_layers: 1e9 }), /num_layers is 1000000000: /],
  [
    "has other channels",
    TRANSFORMER,
    fields({ in_channels: 1e9 }),
    /in_channels is 1000000000, the/,
  ],
  ["is empty", TRANSFORMER, text("{}"), /text_dim is 4096, the text encoder's d_model is \d+/],
  ["is NaN", TRANSFORMER, text('{"eps": NaN}'), /it is not valid JSON/],
  ["is an array", TRANSFORMER, text("[1]"), /must hold a JSON object/],
  ["is large", TRANSFORMER, text(" ".repeat(2 ** 20 + 1)), /1048577 bytes, and at most 1048576/],

  ["has no means", VAE, without("latents_mean"), /latents_mean is missing: .*expected array;/],
  ["has other means", VAE, fields({ z_dim: 1 }), /it must have z_dim = 1 entries/],
  ["has text for means", VAE, fields({ latents_mean: ["a"] }), /latents_mean\.0 is "a"/],
  ["divides by zero", VAE, fields({ latents_std: Array(16).fill(0) }), /latents_std\.0 is 0: too/],
  ["has no RGB", VAE, fields({ out_channels: 5 }), /out_channels is 5: RGB in its patches has \d/],
  ["scales otherwise", VAE, fields({ scale_factor_spatial: 17 }), /the levels and patches give \d/],
  ["attends", VAE, fields({ attn_scales: [1] }), /attn_scales .*not supported/],
  ["is another model", TEXT, fields({ model_type: "clip" }), /model_type is "clip"/],
  ["has odd buckets", TEXT, fields({ relative_attention_num_buckets: 31 }), /a multiple of 4/],
  [
    "has near buckets",
    TEXT,
    fields({ relative_attention_max_distance: 8 }),
    /must exceed a quarter/,
  ],
  [
    "activates otherwise",
    TEXT,
    fields({ feed_forward_proj: "relu" }),
    /feed_forward_proj is "relu"/,
  ],

  [
    "is unknown",
    SCHEDULER,
    fields({ _class_name: "CogVideoXDDIMScheduler" }),
    /"CogVideoXDDIMScheduler" is not supp/,
  ],
  [
    "is for another kind of model",
    SCHEDULER,
    fields({ _class_name: "DDIMScheduler", clip_sample: false }),
    /the model takes Flow\w*, not DDIMScheduler \(in /,
  ],
  ["is none", SCHEDULER, text("{}"), /_class_name missing is not supported/],
  ["has a text for a shift", SCHEDULER, fields({ shift: "a" }), /shift: "a" is not a number \(in /],
  ["has no shift", SCHEDULER, fields({ shift: 0 }), /shift 0: it must be from 0\.001 to 1000/],
  [
    "has no timesteps",
    SCHEDULER,
    fields({ num_train_timesteps: 0 }),
    /it must be from 1 to 1000000/,
  ],
  [
    "shifts by size",
    SCHEDULER,
    fields({ use_dynamic_shifting: true }),
    /true: it is not supported/,
  ],
  [
    "says wrongly whether it adds noise",
    SCHEDULER,
    fields({ stochastic_sampling: 1 }),
    /stochastic_sampling: 1 is not true or false/,
  ],
  ["ends at noise", SCHEDULER, fields({ shift_terminal: 1 }), /it must be from 0 to below 1/],
  [
    "has an absurd order",
    SCHEDULER,
    unipc({ solver_order: 1e9 }),
    /solver_order 1000000000: it must/,
  ],
  [
    "has half an order",
    SCHEDULER,
    unipc({ solver_order: 1.5 }),
    /solver_order 1.5: it must be a whole number/,
  ],
  ["has no flow shift", SCHEDULER, unipc({ flow_shift: 0 }), /flow_shift 0: it must be from/],

  ["are missing", WEIGHTS, "missing", /neither .*\.safetensors .* fetch the model as safetensors/],
  ["are empty", WEIGHTS, text(""), /the file is empty/],
  ["are a Git LFS pointer", WEIGHTS, text("version https://git-lfs"), /run git lfs pull/],
  [
    "are a web page",
    WEIGHTS,
    text("<!DOCTYPE html><html></html>"),
    /it is a web page and not the file itself, .* log in/,
  ],
  ["end in the length", WEIGHTS, firstBytes(4), /it has 4 bytes/],
  ["end in the header", WEIGHTS, firstBytes(1000), /header claims \d+ bytes, the file has 1000/],
  [
    "end in the data",
    WEIGHTS,
    { bytes: (bytes) => bytes.slice(0, bytes.length >> 1) },
    /ends at byte \d+, the file has \d+/,
  ],
  [
    "end a byte early",
    TEXT_WEIGHTS,
    { bytes: (bytes) => bytes.slice(0, -1) },
    /ends at byte \d+, the file has \d+/,
  ],
  ["overflow", WEIGHTS, weight({ shape: [2 ** 53 - 1, 2 ** 53 - 1] }), /takes \d[\d.]*e\+32 bytes/],
  ["begin before", WEIGHTS, weight({ data_offsets: [-10, 10] }), /has the offsets \[-10,10\]/],
  [
    "lie beyond the end",
    WEIGHTS,
    header((tensors) => {
      const [begin, end] = tensors[WEIGHT].data_offsets;
      const data_offsets = [2 ** 52, 2 ** 52 + end - begin];
      return { ...tensors, [WEIGHT]: { ...tensors[WEIGHT], data_offsets } };
    }),
    /ends at byte 45\d{14}, the file has/,
  ],
  [
    "are of no type",
    WEIGHTS,
    weight({ dtype: "Q4" }),
    /is stored as Q4, which this program does not know/,
  ],
  ["has no map", SHARDS, text("{}"), /it has no "weight_map"/],
  ["has an empty map", SHARDS, shards({}), /it has no "weight_map"/],
  ["has a list", SHARDS, shards([]), /it has no "weight_map"/],
  [
    "leads outside",
    SHARDS,
    shards({ a: "../vae/x.safetensors" }),
    /which is no file of the folder/,
  ],
  ["misses a shard", SHARDS, shards({ a: "b.safetensors" }), /b\.safetensors": it does not exist;/],
  [
    "promises too much",
    SHARDS,
    shards({ a: "diffusion_pytorch_model.safetensors" }),
    /the index says it holds tensor "a", it does not; fetch both again/,
  ],

  ["is missing", TOKENIZER, "missing", /has none of tokenizer\.json, .* incomplete/],
  ["is a web page", TOKENIZER, text("<html>"), /tokenizer\.json: it is a web page/],
  ["is null", TOKENIZER, text("null"), /tokenizer\.json: it is not an object/],
  [
    "is of another type",
    TOKENIZER,
    model({ type: "WordLevel" }),
    /"WordLevel", which is not supported; supported/,
  ],
  [
    "has no unknown piece",
    TOKENIZER,
    model({ unk_id: 9999 }),
    /unk_id is 9999, and the vocabulary/,
  ],
  [
    "has an endless score",
    TOKENIZER,
    model({ vocab: [["a", 1e308]] }),
    /vocab\[0\] is not a piece/,
  ],
  [
    "normalizes by magic",
    TOKENIZER,
    fields({ normalizer: { type: "Magic" } }),
    /normalizer "Magic"/,
  ],
  [
    "marks with nothing",
    TOKENIZER,
    fields({ pre_tokenizer: { type: "Metaspace", replacement: "" } }),
    /replacement is not a single character/,
  ],
  [
    "has more ids than the encoder",
    TOKENIZER,
    fields({ added_tokens: [{ id: 1e9, content: "<x>" }] }),
    /the tokenizer has 1000000001 ids, the text encoder's vocab_size is \d+/,
  ],
  ["is cut", TOKENIZER_CONFIG, text("{"), /tokenizer_config\.json: it is not valid JSON/],
  ["ends with nothing", TOKENIZER_CONFIG, fields({ eos_token: "<no>" }), /no end token "<no>"/],
];

/** Folders whose parts do not fit together, which shows when the weights are asked for. */
const LOADING: Case[] = [
  ["has 1e9 heads", TRANSFORMER, fields({ num_attention_heads: 1e9 }), /asks for \[\d{11,}, \d+\]/],
  [
    "has 17 heads",
    TRANSFORMER,
    fields({ num_attention_heads: 17 }),
    /its config asks for \[\d+, \d+\]/,
  ],
  ["has a wide FFN", TRANSFORMER, fields({ ffn_dim: 1e15 }), /asks for \[1000000000000000, \d+\]/],
  [
    "has fewer blocks",
    TRANSFORMER,
    fields({ num_layers: 3 }),
    /it has "blocks\.3\..*", one block more than its configuration says/,
  ],
  ["has fewer layers", TEXT, fields({ num_layers: 1 }), /says 1 layers, and its weights have "enc/],
  ["has 1e9 layers", TEXT, fields({ num_layers: 1e9 }), /it lacks tensor "encoder\.block\.\d+\./],
  [
    "has 1e9 blocks",
    VAE,
    fields({ num_res_blocks: 1e9 }),
    /it lacks tensor "decoder\.up_blocks\.0/,
  ],
  ["is wide", VAE, fields({ dim_mult: [1, 2, 1e9] }), /asks for \[\d{11}, \d+, 3, 3, 3\]/],
  [
    "have another shape",
    WEIGHTS,
    header((tensors) => {
      const shape = tensors[WEIGHT].shape.toReversed();
      return { ...tensors, [WEIGHT]: { ...tensors[WEIGHT], shape } };
    }),
    /has shape \[2, 2, 1, 16, \d+\], its config asks for/,
  ],
  ["are integers", WEIGHTS, weight({ dtype: "I16" }), /is stored as I16, this program reads .*F16/],
  [
    "lack a tensor",
    WEIGHTS,
    withoutTensor(WEIGHT),
    /it lacks tensor "patch_embedding\.weight" of shape/,
  ],
];

/** Folders that load, and give no image: what is wrong only shows in the numbers. */
const GENERATING: Case[] = [
  [
    "hold NaN",
    WEIGHTS,
    fill(WEIGHT, NaN),
    /the transformer .* tensor "patch_embedding\.weight" in/,
  ],
  ["hold infinity", WEIGHTS, fill(WEIGHT, Infinity), /"patch_embedding\.weight" .* fetch it again/],
  [
    "hold NaN",
    TEXT_WEIGHTS,
    fill("shared.weight", NaN),
    /tensor "shared\.weight" in .*text_encoder/,
  ],
  [
    "hold NaN",
    VAE_WEIGHTS,
    fill("decoder.norm_out.gamma", NaN),
    /the autoencoder .* tensor "decoder\.norm_out\.gamma" in .*vae" holds NaN or infinity/,
  ],
  [
    "has an absurd mean",
    VAE,
    fields({ latents_mean: Array(16).fill(1e308) }),
    /the autoencoder gave NaN or Inf, although all weights are/,
  ],
];

function nest(depth: number): unknown {
  let value: unknown = 0;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

function withoutTensor(name: string): Damage {
  return header(({ [name]: _, ...rest }) => rest);
}

function assertSentence(error: unknown, message: RegExp): true {
  assert.ok(error instanceof Error);
  assert.match(error.message, /^Cannot [^\n]{10,1500}[^.\n]$/);
  assert.match(error.message, message);
  assert.doesNotMatch(error.message, /undefined|\[object/);
  return true;
}

async function withModel(
  [, file, damage]: Case,
  use: (folder: string) => Promise<void>,
): Promise<void> {
  using model = damagedModel({ [file]: damage });
  const start = performance.now();
  await use(model.folder);
  assert.ok(performance.now() - start < 30_000, "it takes too long");
}

for (const entry of OPENING) {
  const [what, file, , message] = entry;
  Deno.test(`openPipeline() says in a sentence that ${file} ${what}`, () =>
    withModel(entry, async (folder) => {
      await assert.rejects(openPipeline(folder), (error) => assertSentence(error, message));
    }));
}

Deno.test("Pipeline.load() says in a sentence which parts do not fit together", async (t) => {
  const device = await openTestDevice();
  try {
    for (const entry of LOADING) {
      const [what, file, , message] = entry;
      await t.step(`${file} ${what}`, () =>
        withModel(entry, async (folder) => {
          using pipeline = await openPipeline(folder);
          await assert.rejects(pipeline.load(device), (error) => assertSentence(error, message));
          assert.equal(device.allocatedBytes, 0);
        }));
    }
  } finally {
    device.destroy();
  }
});

Deno.test("Pipeline.generate() gives a sentence and no black image for weights without numbers", async (t) => {
  const device = await openTestDevice();
  const size = { width: 16, height: 16, numFrames: 1 };
  const request = { prompt: "a", negativePrompt: "", ...size, seed: 1, numInferenceSteps: 1 };
  try {
    for (const entry of GENERATING) {
      const [what, file, , message] = entry;
      await t.step(`${file} ${what}`, () =>
        withModel(entry, async (folder) => {
          using pipeline = await openPipeline(folder);
          await pipeline.load(device);
          await assert.rejects(
            pipeline.generate({ ...request, task: "T2I", guidanceScale: 3 }),
            (error) => assertSentence(error, message),
          );
        }));
    }
    await t.step(
      "a guidance scale that overflows is the request's fault",
      () =>
        withModel(["is whole", "", "missing", /./], async (folder) => {
          using pipeline = await openPipeline(folder);
          await pipeline.load(device);
          await assert.rejects(
            pipeline.generate({ ...request, task: "T2I", guidanceScale: 1e39 }),
            (error) => {
              assert.ok(error instanceof RangeError);
              return assertSentence(error, /because guidanceScale is 1e\+39; ask for less/);
            },
          );
          const { frames } = await pipeline.generate({ ...request, task: "T2I", guidanceScale: 3 });
          assert.ok(frames[0]!.every(Number.isFinite));
        }),
    );
  } finally {
    device.destroy();
  }
});
