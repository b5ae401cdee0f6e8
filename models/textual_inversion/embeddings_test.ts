import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Checkpoint, decodeElements } from "../../runtime/mod.ts";
import { safetensorsOf } from "../../tests/support/safetensors.ts";
import { chunkPrompt } from "../prompt_syntax/chunks.ts";
import type { PromptSyntax } from "../prompt_syntax/parse_prompt.ts";
import { loadTokenizer } from "../tokenizers/mod.ts";
import { EmbeddingFolder } from "./embedding_folder.ts";
import { splitEmbeddings } from "./prompt_words.ts";
import { EmbeddingFile } from "./read_embedding.ts";

const GOLDENS = fileURLToPath(new URL("../../tests/goldens", import.meta.url));
const FOLDER = join(GOLDENS, "embeddings");
const VALUES = Checkpoint.open(join(FOLDER, "values.golden"));
const tokenizer = await loadTokenizer(join(GOLDENS, "tokenizers/clip"));
const TABLE = { vocab_size: 606, hidden_size: 6 };

function expected(name: string, width = 6): number[] {
  const bytes = new Uint8Array(VALUES.find(`${name}.${width}`)!.byteLength);
  VALUES.read(`${name}.${width}`, 0, bytes);
  return [...decodeElements(bytes, "f32")];
}

const FILES = {
  "module.pt": 2,
  "webui.pt": 3,
  "bad-hands-5.safetensors": 2,
  "learned_embeds.bin": 1,
  "style.safetensors": 2,
  "listed.pt": 3,
  "pair.safetensors": 2,
};

Deno.test("EmbeddingFile reads the vectors of every form of file", () => {
  for (const [name, count] of Object.entries(FILES)) {
    using file = EmbeddingFile.open(join(FOLDER, name));
    const stem = name.replace(/\.\w+$/, "");
    assert.deepEqual(file.vectors[0], { width: 6, count }, name);
    assert.deepEqual([...file.read(6)!], expected(stem), name);
    assert.equal(file.read(7), undefined);
  }
  using pair = EmbeddingFile.open(join(FOLDER, "pair.safetensors"));
  assert.deepEqual([...pair.read(10)!], expected("pair", 10));
});

Deno.test("EmbeddingFile refuses files that hold no vectors, too many, and numbers that are none", async () => {
  assert.throws(() => EmbeddingFile.open(join(FOLDER, "weights.safetensors")), {
    message:
      /as an embedding: tensor "layer\.weight" of shape \[4,3,2\] and type F32 is no vectors/,
  });
  const folder = await Deno.makeTempDir();
  const write = (name: string, shape: number[], value = 1) => {
    const values = new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(value);
    const path = join(folder, name);
    Deno.writeFileSync(path, safetensorsOf({ emb_params: { dtype: "f32", shape, values } }));
    return path;
  };
  try {
    assert.throws(() => EmbeddingFile.open(write("a.safetensors", [1025, 2])), {
      message: /it holds 1025 vectors, and an embedding has 1 to 1024/,
    });
    using broken = EmbeddingFile.open(write("b.safetensors", [2, 3], NaN));
    assert.throws(() => broken.read(3), /vector 0 has NaN or infinity/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("EmbeddingFolder finds files by their names, and tells what it has", () => {
  const folder = new EmbeddingFolder(FOLDER);
  for (const name of ["style", "style.safetensors", "STYLE"]) {
    assert.equal(folder.find(name), join(FOLDER, "style.safetensors"), name);
  }
  for (const name of ["notes", "../embeddings/style", "values"]) {
    assert.equal(folder.find(name), undefined, name);
  }
  const known = folder.known().map(({ name }) => name);
  assert.deepEqual(known, [
    ...["bad-hands-5", "learned_embeds", "listed", "module", "pair", "style", "webui"],
  ]);
  assert.deepEqual([...new EmbeddingFolder(undefined).files()], []);
  const gone = Deno.makeTempDirSync();
  const emptied = new EmbeddingFolder(gone);
  Deno.removeSync(gone);
  assert.throws(
    () => emptied.tower(TABLE).idsOf("style"),
    /names the embedding "style", and the folder has none/,
  );
  assert.throws(
    () => new EmbeddingFolder(join(FOLDER, "style.safetensors")),
    /it is a file; name the folder that has it/,
  );
  assert.throws(
    () => new EmbeddingFolder(join(FOLDER, "none")),
    /Cannot take embeddings from ".*none": it does not exist/,
  );
});

Deno.test("TowerEmbeddings gives ids behind the vocabulary, the same ones again, and refuses vectors of another width", () => {
  const tower = new EmbeddingFolder(FOLDER).tower(TABLE);
  assert.deepEqual(tower.idsOf("style"), [606, 607]);
  assert.deepEqual(tower.idsOf("webui"), [608, 609, 610]);
  assert.deepEqual(tower.idsOf("Style"), [606, 607]);
  assert.deepEqual([...tower.row(607)], expected("style").slice(6));
  assert.throws(() => tower.row(611), /Cannot embed token 611/);
  const wide = new EmbeddingFolder(FOLDER).tower({ vocab_size: 606, hidden_size: 10 });
  assert.deepEqual(wide.idsOf("pair"), [606, 607]);
  assert.throws(
    () => wide.idsOf("style"),
    /"style": its vectors have 6 numbers, those of the text encoder 10; it is for another model/,
  );
  assert.throws(() => tower.idsOf("weights"), {
    name: "RangeError",
    message: /^Cannot read "weights" as an embedding: tensor "layer\.weight" of shape/,
  });
});

/** Ids of the tokens of a prompt, without those of its ends. */
function idsOf(prompt: string, syntax: PromptSyntax) {
  const tower = new EmbeddingFolder(FOLDER).tower(TABLE);
  const splitWords = splitEmbeddings(tower);
  const options = { syntax, tokenizer, places: 77, maxChunks: 2, splitWords };
  const [{ ids, weights }] = chunkPrompt(prompt, options).chunks as [
    { ids: readonly number[]; weights: readonly number[] },
  ];
  const end = ids.indexOf(tokenizer.eosId);
  return { ids: ids.slice(1, end), weights: weights.slice(1, end) };
}

Deno.test("a prompt names embeddings, in every syntax, and by bare names as AUTOMATIC1111 does", () => {
  const words = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
  for (const syntax of ["plain", "a1111", "comfyui"] as const) {
    assert.deepEqual(
      idsOf("a fox, embedding:style, by night", syntax).ids,
      [...words("a fox,"), 606, 607, ...words(", by night")],
    );
    assert.deepEqual(idsOf("embedding:style.", syntax).ids, [606, 607, ...words(".")]);
    assert.deepEqual(
      idsOf("embedding:style.safetensors embedding:pair", syntax).ids,
      [606, 607, 608, 609],
    );
  }
  const bare = "bad-hands-5, a stylish style";
  assert.deepEqual(
    idsOf(bare, "a1111").ids,
    [606, 607, ...words(", a stylish"), 608, 609],
  );
  assert.deepEqual(idsOf("layer weights", "a1111").ids, words("layer weights"));
  assert.throws(() => idsOf("embedding:weights", "a1111"), /Cannot read "weights" as an embedding/);
  for (const syntax of ["plain", "comfyui"] as const) {
    assert.deepEqual(idsOf(bare, syntax).ids, words(bare));
  }
  for (const syntax of ["a1111", "comfyui"] as const) {
    const { ids, weights } = idsOf("(embedding:style:1.2) fox", syntax);
    assert.deepEqual(ids, [606, 607, ...words("fox")]);
    assert.deepEqual(weights.slice(0, 3), [1.2, 1.2, 1]);
  }
});

Deno.test("a prompt that names an unknown embedding is refused with what there is", () => {
  assert.throws(
    () => idsOf("embedding:none", "plain"),
    /names the embedding "none", and the folder has bad-hands-5, learned_embeds, .*$/,
  );
  assert.throws(
    () => new EmbeddingFolder(undefined).tower(TABLE).idsOf("style"),
    /names the embedding "style", and the model has no folder of embeddings; name one with --embeddings/,
  );
});

Deno.test("splitEmbeddings() asks for a file once, however often a prompt names it", () => {
  const asked: string[] = [];
  const tower = new EmbeddingFolder(FOLDER).tower(TABLE);
  const counted = new Proxy(tower, {
    get(target, key) {
      asked.push(String(key));
      const value = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const split = splitEmbeddings(counted);
  for (const syntax of ["plain", "a1111"] as const) {
    const parts = split("style, embedding:style fox. ".repeat(1000), syntax);
    assert.equal(
      parts.filter((part) => typeof part !== "string").length,
      syntax === "a1111" ? 2000 : 1000,
    );
  }
  assert.deepEqual(asked.toSorted(), ["has", "idsOf", "names"]);
});
