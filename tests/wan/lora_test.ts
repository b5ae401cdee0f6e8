/** How the pipeline switches LoRAs. What they compute is tested beside `models/lora` and in `tests/lora/`. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loraOf, randomTensor } from "../support/lora_reference.ts";
import { assertClose, type Values } from "../support/golden.ts";
import { type Fixture, FOLDER, REQUEST, withPipeline } from "../support/pipeline_fixture.ts";
import type { AppliedLora, LoraComponent, ModuleChange } from "../../models/lora/types.ts";

/** Low-rank changes of all linear layers and of the patches that a pattern matches. */
function lowRank(
  { pipeline }: Fixture,
  key: string,
  matches: RegExp,
  options: { target?: LoraComponent; strength?: number; mode?: AppliedLora["mode"] } = {},
): AppliedLora {
  const { target = "transformer", strength = 1, mode = "dynamic" } = options;
  const { modules } = pipeline.adaptable.find((component) => component.target === target)!;
  const changes = modules.filter(({ name, shape }) => shape.length > 1 && matches.test(name))
    .map(({ name, shape: [rows, ...others] }, i): ModuleChange => ({
      target,
      module: name,
      weight: [{
        kind: "low-rank",
        scale: 1,
        down: randomTensor([4, ...others], i + key.length),
        up: randomTensor([rows!, 4], i + key.length + 100, { scale: 0.3 }),
      }],
    }));
  assert.ok(changes.length > 0, `${matches} matches modules`);
  return { key, lora: loraOf(...changes), strength, targets: [target], mode };
}

async function latents({ pipeline }: Fixture, ...loras: AppliedLora[]): Promise<Values> {
  const { latents } = await pipeline.generate({ ...REQUEST, numFrames: 1, loras });
  return { shape: [latents.length], data: latents };
}

/** The relative difference between two results. */
function difference(a: Values, b: Values): number {
  let [sum, size] = [0, 0];
  for (let i = 0; i < a.data.length; i++) {
    sum += (a.data[i]! - b.data[i]!) ** 2;
    size += b.data[i]! ** 2;
  }
  return Math.sqrt(sum / size);
}

Deno.test("WanPipeline.info says what LoRAs can change, and in which namings", () =>
  withPipeline(({ pipeline }) => {
    const [transformer, textEncoder] = pipeline.adaptable;
    assert.deepEqual(
      [transformer?.target, transformer?.layouts.map(({ name }) => name), textEncoder?.target],
      ["transformer", ["original Wan"], "text_encoder"],
    );
    const find = (name: string) => transformer!.modules.find((module) => module.name === name);
    const { shape: [dim] } = find("blocks.0.attn1.to_q")!;
    assert.deepEqual(find("blocks.1.ffn.net.2")?.hasBias, true);
    assert.deepEqual(find("blocks.0.attn1.norm_q"), {
      name: "blocks.0.attn1.norm_q",
      shape: [dim],
      hasBias: false,
      isQuantised: false,
    });
    return Promise.resolve();
  }));

Deno.test("WanPipeline.generate() gives with a LoRA beside the weights what it gives merged, and the base afterwards", () =>
  withPipeline(async (fixture) => {
    const base = await latents(fixture);
    for (
      const [name, matches, target] of [
        ["all of the transformer", /./, "transformer"],
        ["all of the text encoder", /./, "text_encoder"],
        ["patches", /^patch_embedding$/, "transformer"],
        ["one of q, k and v", /attn1\.to_k$/, "transformer"],
      ] as const
    ) {
      const dynamic = await latents(fixture, lowRank(fixture, name, matches, { target }));
      assert.ok(difference(dynamic, base) > 1e-3, `${name} changes something`);
      const merged = await latents(
        fixture,
        lowRank(fixture, name, matches, { target, mode: "merge" }),
      );
      assertClose(name, merged, dynamic, 1e-3);
      assert.deepEqual(await latents(fixture), base, name);
    }
  }));

Deno.test("WanPipeline.generate() creates nothing on the device when it goes back to LoRAs, or changes their strength", () =>
  withPipeline(async (fixture) => {
    const { device } = fixture;
    const [a, b] = [lowRank(fixture, "a", /attn1/), lowRank(fixture, "b", /ffn|attn2/)];
    const sets = [[], [a], [b], [a, b]];
    const first: Values[] = [];
    for (const set of sets) first.push(await latents(fixture, ...set));
    const counts = () => {
      const { pipelines, bindGroups, buffers } = device.counters;
      return [pipelines, bindGroups, buffers];
    };
    const before = counts();
    for (const i of [2, 0, 3, 1, 3, 0]) {
      assert.deepEqual(await latents(fixture, ...sets[i]!), first[i], `set ${i}`);
    }
    const half = await latents(fixture, { ...a, strength: 0.5 }, { ...b, strength: -1 });
    assert.ok(difference(half, first[3]!) > 1e-3);
    assert.deepEqual(
      await latents(fixture, { ...a, strength: 0 }, b),
      first[2],
      "off is not there",
    );
    assert.deepEqual(counts(), before);
  }));

Deno.test("WanPipeline.generate() encodes prompts again when LoRAs change how, and only then", () =>
  withPipeline(async (fixture) => {
    const { device } = fixture;
    const submitsFor = async (...loras: AppliedLora[]) => {
      const { submits } = device.counters;
      const values = await latents(fixture, ...loras);
      return { submits: device.counters.submits - submits, values };
    };
    await submitsFor();
    const least = (await submitsFor()).submits;
    // The encoder's states are read back for other requests, keys and values are not.
    for (
      const [matches, target, more] of [
        [/attn1/, "transformer", 0],
        [/attn2\.to_v$/, "transformer", 1],
        [/text_embedder/, "transformer", 1],
        [/./, "text_encoder", 3],
      ] as const
    ) {
      const lora = lowRank(fixture, `${target} ${matches}`, matches, { target });
      const first = await submitsFor(lora);
      assert.equal((await submitsFor(lora)).submits, least);
      const other = await submitsFor({ ...lora, strength: 0.5 });
      assert.equal(other.submits, least + more, `${matches}`);
      assert.ok(difference(other.values, first.values) > 1e-4, `${matches}`);
      assert.deepEqual((await submitsFor(lora)).values, first.values);
    }
  }));

Deno.test("WanPipeline.prepare() brings LoRAs onto the device, so that a request finds them there", () =>
  withPipeline(async (fixture) => {
    const { device, pipeline } = fixture;
    const lora = lowRank(fixture, "a", /./);
    await latents(fixture, lora);
    const withPrograms = device.allocatedBytes;
    await latents(fixture);
    await pipeline.prepare([lora]);
    assert.ok(device.allocatedBytes >= withPrograms);
    const { buffers } = device.counters;
    await latents(fixture, lora);
    assert.equal(device.counters.buffers, buffers);
    pipeline[Symbol.dispose]();
    assert.equal(device.allocatedBytes, 0);
  }));

Deno.test("WanPipeline.generate() lets programs of other LoRAs go where there is no room for all", async () => {
  let peak = 0;
  let weights = 0;
  await withPipeline(async (fixture) => {
    weights = fixture.weightBytes;
    fixture.device.resetPeak();
    await latents(fixture, lowRank(fixture, "a", /./));
    peak = fixture.device.peakBytes;
  });
  await withPipeline(async (fixture) => {
    const sets = ["a", "bb", "ccc"].map((key) => lowRank(fixture, key, /./));
    for (let round = 0; round < 2; round++) {
      for (const set of sets) {
        await latents(fixture, set);
        assert.ok(fixture.device.allocatedBytes <= peak + (peak - weights) / 2);
      }
    }
  }, { maxBytes: Math.floor(peak + (peak - weights) / 2) });
});

Deno.test("WanPipeline.generate() gives the same where weights are freed, streamed or pinned", async () => {
  const sets = (fixture: Fixture) => [
    [],
    [lowRank(fixture, "a", /attn1/)],
    [lowRank(fixture, "a", /attn1/, { mode: "merge", strength: 0.7 })],
    [lowRank(fixture, "b", /ffn/, { mode: "merge" }), lowRank(fixture, "a", /attn1/)],
    [lowRank(fixture, "c", /SelfAttention/, { target: "text_encoder", mode: "merge" })],
    [],
  ];
  const expected: Values[] = [];
  let peakBytes = 0;
  await withPipeline(async (fixture) => {
    for (const set of sets(fixture)) expected.push(await latents(fixture, ...set));
    peakBytes = fixture.device.peakBytes;
  });
  const offloaded = new Set(["text encoder", "transformer"]);
  for (const isPinned of [false, true]) {
    for (
      const [name, options] of [
        ["freed", { memory: { offloaded, isPinned } }],
        ["little room", { maxBytes: Math.floor(peakBytes * 0.4), memory: { isPinned } }],
      ] as const
    ) {
      await withPipeline(async (fixture) => {
        for (const [i, set] of sets(fixture).entries()) {
          const actual = await latents(fixture, ...set);
          if (set.some(({ mode }) => mode === "merge")) {
            // The device merges into weights that are there, the host into others: sums round differently.
            const error = difference(actual, expected[i]!);
            assert.ok(error < 1e-4, `${name}, set ${i}: the difference is ${error}`);
            assert.deepEqual(await latents(fixture, ...set), actual, `${name}, set ${i}, again`);
          } else assert.deepEqual(actual, expected[i], `${name}, set ${i}`);
        }
      }, options);
    }
  }
});

Deno.test("WanPipeline.generate() writes merged LoRAs once, also into weights that come to the device again and again", async () => {
  for (const options of [{ memory: { offloaded: new Set(["transformer"]) } }, {}]) {
    await withPipeline(async (fixture) => {
      const { lora, ...use } = lowRank(fixture, "a", /attn1/, { mode: "merge" });
      let reads = 0;
      const changes = lora.changes.map((change): ModuleChange => ({
        ...change,
        get weight() {
          reads++;
          return change.weight;
        },
      }));
      const counted = { ...use, lora: { ...lora, changes } };
      /** How often the changes were looked at, beyond what planning takes. */
      const readsOf = async () => {
        await fixture.pipeline.prepare([counted]);
        reads = 0;
        await fixture.pipeline.prepare([counted]);
        const planning = reads;
        reads = 0;
        const values = await latents(fixture, counted);
        return { more: reads - planning, values };
      };
      const first = await readsOf();
      const second = await readsOf();
      assert.equal(second.more, 0);
      assert.deepEqual(second.values, first.values);
    }, options);
  }
});

/** The model as a trainer keeps it that goes on with the critic, too. */
async function folderWithCritic(folder: string): Promise<void> {
  for (const { name, isDirectory } of Deno.readDirSync(FOLDER)) {
    if (isDirectory) await Deno.symlink(join(FOLDER, name), join(folder, name));
  }
  await Deno.symlink(join(FOLDER, "transformer"), join(folder, "fake_score_transformer"));
  const index = JSON.parse(await Deno.readTextFile(join(FOLDER, "model_index.json")));
  index.fake_score_transformer = index.transformer;
  await Deno.writeTextFile(join(folder, "model_index.json"), JSON.stringify(index));
}

Deno.test("WanPipeline takes LoRAs for a critic where the model has one, which change nothing that it makes", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await folderWithCritic(folder);
    await withPipeline(async (fixture) => {
      const { pipeline, device } = fixture;
      const targets = pipeline.adaptable.map(({ target }) => target);
      assert.deepEqual(targets, ["transformer", "text_encoder", "critic"]);
      const held = device.allocatedBytes;
      const lora = lowRank(fixture, "critic", /attn1\.to_q$/, { target: "critic" });
      await pipeline.prepare([lora]);
      assert.equal(device.allocatedBytes, held);
      assert.deepEqual(await latents(fixture, lora), await latents(fixture));
      const change = lora.lora.changes[0]!;
      const misfit = loraOf({ ...change, weight: [{ ...change.weight[0]!, rows: [0, 1] }] });
      await assert.rejects(pipeline.prepare([{ ...lora, lora: misfit }]), RangeError);
    }, { folder });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
