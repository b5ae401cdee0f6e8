import { strict as assert } from "node:assert";
import { defaultsOf } from "../generation/flag.ts";
import { SERVE_FLAGS, type ServeFlags } from "./flags.ts";
import { cardOptions, modelsOf, notes } from "./serve.ts";

const FLAGS: ServeFlags = defaultsOf(SERVE_FLAGS);

Deno.test("notes() is silent when there is nothing to know", () => {
  assert.deepEqual(notes(FLAGS), []);
  assert.deepEqual(notes({ ...FLAGS, host: "localhost" }), []);
  assert.deepEqual(notes({ ...FLAGS, host: "0.0.0.0", apiKeys: ["k"] }), []);
});

Deno.test("cardOptions() takes a number of GPUs, or a list, but not two that differ", () => {
  assert.deepEqual(cardOptions({ numGpus: 2, pins: { a: [1] } }), { gpus: 2, pins: { a: [1] } });
  assert.deepEqual(cardOptions({ numGpus: 1, gpus: [0, 2] }), { gpus: [0, 2], pins: {} });
  assert.deepEqual(cardOptions({ numGpus: 2, gpus: [0, 2] }), { gpus: [0, 2], pins: {} });
  assert.throws(() => cardOptions({ numGpus: 3, gpus: [0, 2] }), /Cannot use 3 GPUs and GPUs 0, 2/);
});

Deno.test("notes() warns when others can reach a server without a key", () => {
  const [line] = notes({ ...FLAGS, host: "0.0.0.0" });
  assert.match(line!, /^Warning: everybody who reaches 0\.0\.0\.0 can use this server/);
});

Deno.test("notes() names folders for LoRAs that are none", () => {
  assert.deepEqual(notes({ ...FLAGS, loraFolders: [import.meta.dirname!] }), []);
  assert.match(
    notes({ ...FLAGS, loraFolders: ["/gone"] })[0]!,
    /^Note: --lora-dir \/gone is no folder/,
  );
});
Deno.test("notes() says that there is no page to open", () => {
  assert.deepEqual(notes({ ...FLAGS, open: true }), []);
  assert.match(
    notes({ ...FLAGS, open: true, playground: false })[0]!,
    /^Note: --open has no effect/,
  );
});

Deno.test("notes() says that nothing can be resumed without records", () => {
  assert.deepEqual(notes({ ...FLAGS, resumeJobs: true }), []);
  const [line] = notes({ ...FLAGS, resumeJobs: true, outputPath: "" });
  assert.match(line!, /^Note: --resume-jobs has no effect with --output-path ""/);
});

Deno.test("modelsOf() names the first by --served-model-name, else --model-id, else as --model-path does", () => {
  const named = (flags: Parameters<typeof modelsOf>[0]) => modelsOf(flags)[0].name;
  assert.equal(named({ modelPath: ["a/b"], modelId: "id", servedModelName: "public" }), "public");
  assert.equal(named({ modelPath: ["a/b"], modelId: "id" }), "id");
  assert.equal(named({ modelPath: ["a/b"] }), "a/b");
  assert.equal(named({ modelPath: [] }), "bundled");
});

Deno.test("modelsOf() takes several models, with names, and all that are there", () => {
  const two = modelsOf({ modelPath: ["one=bundled", "org/name:q4.gguf"] });
  assert.deepEqual(two, [
    { name: "one", modelPath: "bundled" },
    { name: "org/name:q4.gguf", modelPath: "org/name:q4.gguf" },
  ]);
  const [named] = modelsOf({ modelPath: ["org/name=bundled"] });
  assert.deepEqual(named, { name: "org/name", modelPath: "bundled" });
  const there = ["bundled", "a/b", "c/d"].map((name) => ({ name, modelPath: name }));
  const all = modelsOf({ modelPath: ["a/b"] }, there);
  assert.deepEqual(all.map(({ name }) => name), ["a/b", "bundled", "c/d"]);
  assert.throws(() => modelsOf({ modelPath: ["a/b", "a/b"] }), {
    name: "UsageError",
    message: /two models as a\/b: name them, as in --model-path small=a\/b/,
  });
});
