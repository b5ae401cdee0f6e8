/** Damaged files of models, tokenizers and LoRAs: each is used, or refused in a sentence, in bounded time and memory. */
import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { readLora, tensorsOf } from "../../models/lora/read_lora.ts";
import { openPipeline } from "../../models/mod.ts";
import { hasTokenizer, readEmbeddedTokenizer } from "../../models/tokenizers/embedded.ts";
import { loadTokenizer, type Tokenizer } from "../../models/tokenizers/mod.ts";
import { parseSentencePieceModel } from "../../models/tokenizers/sentencepiece_model.ts";
import { Checkpoint, elementCount, openDevice } from "../../runtime/mod.ts";
import { encodeGguf, type GgufField } from "../support/gguf.ts";
import { withFolder } from "../support/safetensors.ts";
import { BUNDLED, damagedModel } from "./damaged_model.ts";
import { byteDamage, fuzz, jsonDamage, takenOrRefused } from "./fuzz.ts";

const golden = (path: string) => fileURLToPath(new URL(`../goldens/${path}`, import.meta.url));
const TOKENIZER = join(BUNDLED, "tokenizer");

/** Checks that both outcomes come up: else the damage is too small or too great to find anything. */
async function bothSeen(
  numRuns: number,
  cases: (seen: (outcome: string) => void) => Promise<void>,
): Promise<void> {
  const outcomes = new Set<string>();
  await cases((outcome) => outcomes.add(outcome));
  if (numRuns >= 100) assert.deepEqual([...outcomes].sort(), ["refused", "taken"]);
}

/** Files of a model folder that are JSON. */
const CONFIGS = [
  "model_index.json",
  "transformer/config.json",
  "text_encoder/config.json",
  "vae/config.json",
  "scheduler/scheduler_config.json",
  "tokenizer/tokenizer.json",
  "tokenizer/tokenizer_config.json",
];

/** Files with weights. */
const WEIGHTS = [
  "transformer/diffusion_pytorch_model.safetensors",
  "text_encoder/model.safetensors",
  "vae/diffusion_pytorch_model.safetensors",
];

async function openAndClose(model: string): Promise<void> {
  (await openPipeline(model, { tokenizer: TOKENIZER }))[Symbol.dispose]();
}

fuzz(
  "openPipeline() opens or refuses a folder with damaged JSON",
  { few: 20, many: 1500 },
  (run) =>
    bothSeen(run.numRuns, (seen) =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom(...CONFIGS), jsonDamage, async (path, damage) => {
          const text = damage(Deno.readTextFileSync(join(BUNDLED, path)));
          using model = damagedModel({ [path]: { text } });
          seen(
            await takenOrRefused(async () => (await openPipeline(model.folder))[Symbol.dispose]()),
          );
        }),
        run,
      )),
);

fuzz(
  "openPipeline() opens or refuses a folder with damaged weights",
  { few: 20, many: 1000 },
  (run) =>
    bothSeen(run.numRuns, (seen) =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom(...WEIGHTS), byteDamage, async (path, damage) => {
          using model = damagedModel({ [path]: { bytes: (bytes) => damage(bytes).slice() } });
          seen(await takenOrRefused(() => openAndClose(model.folder)));
        }),
        run,
      )),
);

fuzz(
  "Pipeline.load() loads or refuses a folder with damaged JSON",
  { few: 2, many: 60 },
  async (run) => {
    const device = await openDevice();
    try {
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...CONFIGS), jsonDamage, async (path, damage) => {
          const text = damage(Deno.readTextFileSync(join(BUNDLED, path)));
          using model = damagedModel({ [path]: { text } });
          await takenOrRefused(async () => {
            using pipeline = await openPipeline(model.folder);
            await pipeline.load(device);
          });
          assert.equal(device.allocatedBytes, 0);
        }),
        run,
      );
    } finally {
      device.destroy();
    }
  },
);

/** Whole models and parts in one file, of both containers. */
const SINGLE = ["all.safetensors", "transformer.gguf", "text_encoder.gguf"]
  .map((name) => golden(`single_files/wan/${name}`));
const SINGLE_TOKENIZER = golden("wan/pipeline-t2v/tokenizer");

fuzz(
  "openPipeline() opens or refuses a damaged single file",
  { few: 20, many: 1000 },
  (run) =>
    bothSeen(run.numRuns, (seen) =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom(...SINGLE), byteDamage, async (path, damage) => {
          await withFolder(
            { [basename(path)]: damage(Deno.readFileSync(path)) },
            async (folder) => {
              const file = join(folder, basename(path));
              const whole = {
                textEncoder: SINGLE[2]!,
                vae: SINGLE[0]!,
                tokenizer: SINGLE_TOKENIZER,
              };
              const parts = path === SINGLE[2]
                ? { model: SINGLE[1]!, ...whole, textEncoder: file }
                : { model: file, ...whole };
              seen(
                await takenOrRefused(async () => {
                  const { model, ...others } = parts;
                  (await openPipeline(model, others))[Symbol.dispose]();
                }),
              );
            },
          );
        }),
        run,
      )),
);

const SAMPLES = [
  "a red circle",
  "",
  "  ",
  "naïve\u0000 \ud800 😀",
  "\u2581<0x0A></s><pad>",
  "a".repeat(3000),
];

/** Ids must be of the vocabulary, or nothing holds that is computed with them. */
function encodeAll(tokenizer: Tokenizer): void {
  for (const sample of SAMPLES) {
    const ids = tokenizer.encode(sample, { maxLength: 64 });
    assert.ok(ids.length <= 64);
    for (const id of ids) {
      assert.ok(Number.isSafeInteger(id) && id >= 0 && id < tokenizer.vocabSize);
    }
  }
}

/** Tokenizers by the files that make them. */
const TOKENIZERS: readonly (readonly string[])[] = [
  ["bundled/tokenizer.json", "bundled/tokenizer_config.json"],
  ["qwen2/tokenizer.json", "qwen2/tokenizer_config.json"],
  ["qwen2/vocab.json", "qwen2/merges.txt", "qwen2/tokenizer_config.json"],
  ["t5/tokenizer.json", "t5/tokenizer_config.json"],
  ["variants/plain.model"],
  ["variants/symbols.model"],
  ["variants/suffix.model"],
].map((names) => names.map((name) => golden(`tokenizers/${name}`)));

fuzz(
  "loadTokenizer() uses or refuses damaged files",
  { few: 20, many: 1500 },
  (run) =>
    bothSeen(run.numRuns, (seen) =>
      fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...TOKENIZERS),
          fc.nat(2),
          jsonDamage,
          byteDamage,
          async (paths, which, jsonDamaged, bytesDamaged) => {
            const damaged = paths[which % paths.length];
            const files = paths.map((path): [string, string | Uint8Array] => {
              const name = path.endsWith(".model") ? "spiece.model" : basename(path);
              if (path !== damaged) return [name, Deno.readFileSync(path)];
              return path.endsWith(".json")
                ? [name, jsonDamaged(Deno.readTextFileSync(path))]
                : [name, bytesDamaged(Deno.readFileSync(path))];
            });
            await withFolder(Object.fromEntries(files), async (folder) => {
              seen(await takenOrRefused(async () => encodeAll(await loadTokenizer(folder))));
            });
          },
        ),
        run,
      )),
);

function bpeInGguf(): Uint8Array {
  const { model } = JSON.parse(Deno.readTextFileSync(golden("tokenizers/qwen2/tokenizer.json")));
  const tokens = Object.entries<number>(model.vocab).sort((a, b) => a[1] - b[1]).map(([text]) =>
    text
  );
  return gguf({
    model: { text: "gpt2" },
    pre: { text: "qwen2" },
    tokens: { texts: tokens },
    token_type: { i32s: tokens.map(() => 1) },
    merges: { texts: model.merges.map((pair: string[]) => pair.join(" ")) },
    eos_token_id: { u32: tokens.length - 1 },
  });
}

function unigramInGguf(): Uint8Array {
  const path = golden("tokenizers/variants/plain.model");
  const { pieces, scores, types } = parseSentencePieceModel(Deno.readFileSync(path), path);
  return gguf({
    model: { text: "t5" },
    tokens: { texts: pieces },
    scores: { f32s: Array.from(scores) },
    token_type: { i32s: types },
    add_space_prefix: { bool: true },
    eos_token_id: { u32: pieces.indexOf("</s>") },
  });
}

function gguf(fields: Readonly<Record<string, GgufField>>): Uint8Array {
  const metadata = Object.entries(fields).map(([key, field]) =>
    [`tokenizer.ggml.${key}`, field] as const
  );
  return encodeGguf({ metadata });
}

const IN_GGUF = [bpeInGguf(), unigramInGguf()];

fuzz(
  "readEmbeddedTokenizer() uses or refuses damaged GGUF files",
  { few: 20, many: 1500 },
  (run) =>
    bothSeen(run.numRuns, (seen) =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom(...IN_GGUF), byteDamage, async (bytes, damage) => {
          await withFolder({ "a.gguf": damage(bytes) }, async (folder) => {
            seen(
              await takenOrRefused(() => {
                using checkpoint = Checkpoint.open(`${folder}/a.gguf`);
                if (hasTokenizer(checkpoint)) encodeAll(readEmbeddedTokenizer(checkpoint));
              }),
            );
          });
        }),
        run,
      )),
);

const LORAS = ["outline.safetensors", "outline.kohya.safetensors", "pastel.comfyui.safetensors"]
  .map((name) => join(BUNDLED, "adapters", name));

/** What a damaged header can say, too: it is JSON after a length. */
const headerDamage = jsonDamage.map((damage) => (bytes: Uint8Array) => {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = new TextEncoder().encode(
    damage(new TextDecoder().decode(bytes.subarray(8, 8 + length))),
  );
  const result = new Uint8Array(bytes.length - length + header.length);
  new DataView(result.buffer).setBigUint64(0, BigInt(header.length), true);
  result.set(header, 8);
  result.set(bytes.subarray(8 + length), 8 + header.length);
  return result;
});

fuzz(
  "readLora() reads or refuses a damaged file of the bundled model",
  { few: 20, many: 1500 },
  async (run) => {
    using pipeline = await openPipeline(BUNDLED);
    const { adaptable } = pipeline;
    await bothSeen(run.numRuns, (seen) =>
      fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...LORAS),
          fc.oneof(byteDamage, headerDamage),
          async (path, damage) => {
            await withFolder(
              { "a.safetensors": damage(Deno.readFileSync(path)) },
              async (folder) => {
                seen(
                  await takenOrRefused(async () => {
                    const { changes } = await readLora(`${folder}/a.safetensors`, adaptable);
                    for (
                      const tensor of changes.flatMap(({ weight }) => weight.flatMap(tensorsOf))
                    ) {
                      const { shape, dtype, bytes } = tensor;
                      assert.equal(
                        bytes.byteLength,
                        elementCount(shape) * (dtype === "f32" ? 4 : 2),
                      );
                    }
                  }),
                );
              },
            );
          },
        ),
        run,
      ));
  },
);
