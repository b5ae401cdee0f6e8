import { strict as assert } from "node:assert";
import { cardOptions, modelsOf, notes, type ServeFlags } from "./serve.ts";

const FLAGS: ServeFlags = {
  modelPath: ["bundled"],
  host: "127.0.0.1",
  port: 30000,
  outputPath: "outputs",
  retain: 0,
  logFormat: "text",
  apiKey: [],
  loraDir: [],
  loraMergeMode: "auto",
  maxQueue: 64,
  corsOrigin: [],
  allowedHost: [],
  numGpus: 1,
};

Deno.test("notes() is silent when there is nothing to know", () => {
  assert.deepEqual(notes(FLAGS), []);
  assert.deepEqual(notes({ ...FLAGS, host: "localhost" }), []);
  assert.deepEqual(notes({ ...FLAGS, host: "0.0.0.0", apiKey: ["k"] }), []);
});

Deno.test("cardOptions() takes a number of GPUs, or a list, but not two that differ", () => {
  assert.deepEqual(cardOptions({ numGpus: 2, pin: { a: [1] } }), { gpus: 2, pins: { a: [1] } });
  assert.deepEqual(cardOptions({ numGpus: 1, gpus: [0, 2] }), { gpus: [0, 2] });
  assert.deepEqual(cardOptions({ numGpus: 2, gpus: [0, 2] }), { gpus: [0, 2] });
  assert.throws(() => cardOptions({ numGpus: 3, gpus: [0, 2] }), /Cannot use 3 GPUs and GPUs 0, 2/);
});

Deno.test("notes() warns when others can reach a server without a key", () => {
  const [line] = notes({ ...FLAGS, host: "0.0.0.0" });
  assert.match(line!, /^Warning: everybody who reaches 0\.0\.0\.0 can use this server/);
});

Deno.test("notes() names folders for LoRAs that are none", () => {
  assert.deepEqual(notes({ ...FLAGS, loraDir: [import.meta.dirname!] }), []);
  assert.match(
    notes({ ...FLAGS, loraDir: ["/gone"] })[0]!,
    /^Note: --lora-dir \/gone is no folder/,
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
  const all = modelsOf({ modelPath: ["a/b"], models: "all" }, ["a/b", "c/d"]);
  assert.deepEqual(all.map(({ name }) => name), ["a/b", "bundled", "c/d"]);
  assert.throws(() => modelsOf({ modelPath: ["a/b", "a/b"] }), {
    name: "UsageError",
    message: /two models as a\/b: name them, as in --model-path small=a\/b/,
  });
});
