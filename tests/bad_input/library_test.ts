import assert from "node:assert/strict";
import { type GenerateOptions, loadModel, type Model } from "../../mod.ts";
import { bundledLoraFiles } from "../../models/lora/bundled.ts";
import { openPipeline } from "../../models/mod.ts";
import { DeviceLostError, openDevice } from "../../runtime/mod.ts";
import { openTestDevice } from "../support/model_run.ts";
import { damagedModel } from "./damaged_model.ts";

/** A small request that takes no time. */
const SMALL: GenerateOptions = { prompt: "a", width: 16, height: 16, numInferenceSteps: 1 };

/** Options that no model can serve, and what is said of them. */
const REFUSED: [options: Partial<Record<keyof GenerateOptions, unknown>>, message: RegExp][] = [
  [{ prompt: "" }, /prompt is empty; say what to make/],
  [{ prompt: " \n\t\u00a0" }, /prompt is empty/],
  [{ prompt: undefined }, /prompt is undefined; give a text/],
  [{ prompt: 7 }, /prompt is number; give a text/],
  [{ prompt: "a".repeat(100_000) }, /it has 100000 characters, and the limit is 32000; shorten it/],
  [{ negativePrompt: "a".repeat(100_000) }, /negativePrompt: it has 100000 characters/],
  [{ strength: 0.5 }, /with T2I this model redraws everything; omit it/],
  [{ loras: "outline" }, /loras must be a list, got string/],
  [{ loras: [{}] }, /Cannot use undefined as the path of a LoRA/],
  [{ width: 100 }, /multiples of 16; the nearest size is 96x16/],
  [{ width: 0 }, /width must be positive/],
  [{ height: -16 }, /height must be positive/],
  [{ width: 16.5 }, /width must be an integer, got 16.5/],
  [{ width: NaN }, /width must be an integer, got NaN/],
  [{ width: 100_000, height: 100_000 }, /at most \d+ pixels; the nearest size is \d+x\d+/],
  [{ numInferenceSteps: 0 }, /numInferenceSteps must be positive/],
  [{ numInferenceSteps: -1 }, /numInferenceSteps must be positive/],
  [{ numInferenceSteps: 1.5 }, /numInferenceSteps must be positive/],
  [{ numInferenceSteps: 1e6 }, /must be at most 1000, got 1000000/],
  [{ guidanceScale: NaN }, /guidanceScale must be finite, got NaN/],
  [{ guidanceScale: Infinity }, /guidanceScale must be finite, got Infinity/],
  [{ guidanceScale: -1 }, /guidanceScale must be non-negative/],
  [{ guidanceScale: 1e39 }, /because guidanceScale is 1e\+39; ask for less/],
  [{ seed: -2 }, /non-negative int or list of ints, .* got -2/],
  [{ seed: 1.5 }, /non-negative int or list of ints, .* got 1\.5/],
  [{ seed: 2 ** 53 }, /non-negative int or list of ints, .* got 9007199254740992/],
  [{ seed: "7" }, /non-negative int or list of ints, .* got 7/],
  [{ seed: [] }, /seed list must not be empty/],
  [{ seed: [1, 2] }, /Cannot use 2 seeds for 1 output: give one/],
  [{ seed: 2 ** 53 - 1, numOutputs: 2 }, /the highest seed is 9007199254740991/],
  [{ numOutputs: 0 }, /Cannot generate 0 images: ask for 1 to 1000/],
  [{ numOutputs: 1e9 }, /Cannot generate 1000000000 images/],
  [{ numOutputs: 1.5 }, /Cannot generate 1\.5 images/],
];

/** Options at the edge of what can be served. */
const SERVED: [what: string, options: Partial<GenerateOptions>][] = [
  ["a prompt with NUL, lone surrogates and emoji", { prompt: "a\0b \ud800 😀 \udfff\u{10ffff}" }],
  ["a prompt that cleaning empties", { prompt: "&zwnj;\u0001" }],
  ["a prompt far beyond what the encoder reads", { prompt: "a red circle ".repeat(2400) }],
  ["a prompt without spaces", { prompt: "&amp;Ã©".repeat(4500) }],
  ["the largest seed", { seed: 2 ** 53 - 1 }],
  ["a guidance scale of 0", { guidanceScale: 0 }],
];

Deno.test("Model.generate() refuses what it cannot serve in a sentence, and goes on", async (t) => {
  await using model = await loadModel();
  for (const [options, message] of REFUSED) {
    const [[name, value] = ["", ""]] = Object.entries(options);
    await t.step(`${name}: ${String(value).slice(0, 20)}`, async () => {
      await assert.rejects(
        model.generate({ ...SMALL, ...options } as GenerateOptions),
        (error) => {
          assert.ok(error instanceof RangeError || error instanceof TypeError, String(error));
          assert.match(error.message, message);
          assert.doesNotMatch(error.message, /\n/);
          return true;
        },
      );
    });
  }
  for (const [what, options] of SERVED) {
    await t.step(`${what} is served`, async () => {
      const [{ data }] = await model.generate({ ...SMALL, ...options });
      assert.equal(data.length, 16 * 16 * 3);
    });
  }
  await t.step("two generations at once give what each alone gives", async () => {
    const one = () => model.generate({ ...SMALL, seed: 1 });
    const other = () => model.generate({ ...SMALL, seed: 2, width: 32 });
    const [[first], [second]] = await Promise.all([one(), other()]);
    assert.deepEqual(first.data, (await one())[0].data);
    assert.deepEqual(second.data, (await other())[0].data);
  });
  await t.step("a callback that throws fails its generation with its own error", async () => {
    const failure = new Error("the callback's own");
    const options = {
      ...SMALL,
      onProgress() {
        throw failure;
      },
    };
    await assert.rejects(model.generate(options), failure);
    await model.generate(SMALL);
  });
  await t.step("an abort is heard while the GPU works, with its reason", async () => {
    const reason = new Error("enough");
    const controller = new AbortController();
    const long = { ...SMALL, numInferenceSteps: 1000, signal: controller.signal };
    const onProgress = () => controller.abort(reason);
    await assert.rejects(model.generate({ ...long, onProgress }), (error) => error === reason);
    await model.generate(SMALL);
  });
});

Deno.test("Model.close() ends a generation under way, and those after it", async () => {
  const model: Model = await loadModel();
  const started = Promise.withResolvers<void>();
  const onProgress = () => started.resolve();
  const running = model.generate({ ...SMALL, numInferenceSteps: 1000, onProgress });
  const waiting = model.generate(SMALL);
  const ended = Promise.allSettled([running, waiting]);
  await started.promise;
  await model.close();
  for (const { status } of await ended) assert.equal(status, "rejected");
  await assert.rejects(running, { name: "AbortError", message: /the engine was closed/ });
  await assert.rejects(model.generate(SMALL), /Cannot generate: the engine is closed/);
  await model.close();
});

Deno.test("loadModel() says where there is no model, and what to give instead", async () => {
  const folder = Deno.makeTempDirSync();
  Deno.writeTextFileSync(`${folder}/file`, "");
  const cases: [path: string, message: RegExp][] = [
    ["", /give the path of a model's folder or file, or a hub id/],
    ["a\0b", /give the path of a model's folder or file, or a hub id/],
    [folder, /it has no model_index\.json; a model is a folder/],
    [bundledLoraFiles()["outline"]!, /it is a LoRA; name it as one/],
    [`${folder}/file`, /it is a file; give the folder/],
    [`${folder}/none`, /it does not exist; give the path/],
    [`${folder}/file/none`, /it does not exist; give the path/],
    ["nobody/nothing-of-this-name", /Cannot fetch .*HF_HUB_OFFLINE is set/],
  ];
  Deno.env.set("HF_HUB_OFFLINE", "1");
  try {
    for (const [path, message] of cases) await assert.rejects(loadModel(path), message);
  } finally {
    Deno.env.delete("HF_HUB_OFFLINE");
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("loadModel() fails with the sentence of a damaged file, and leaves no thread behind", async () => {
  using damaged = damagedModel({ "vae/config.json": { text: "{" } });
  await assert.rejects(loadModel(damaged.folder), /vae.config\.json: it is not valid JSON/);
});

Deno.test("maxVramBytes is never exceeded, and a sentence says what would be needed", async () => {
  const peak = async (maxVramBytes?: number) => {
    const device = await openTestDevice(
      maxVramBytes === undefined ? {} : { maxBytes: maxVramBytes },
    );
    try {
      using pipeline = await openPipeline(damagedFree);
      await pipeline.load(device);
      const request = { prompt: "a", negativePrompt: "", width: 16, height: 16, numFrames: 1 };
      await pipeline.generate({
        ...request,
        task: "T2I",
        seed: 1,
        numInferenceSteps: 1,
        guidanceScale: 0,
      });
      return device.peakBytes;
    } finally {
      device.destroy();
    }
  };
  using whole = damagedModel({});
  const damagedFree = whole.folder;
  const wanted = await peak();
  for (const share of [1, 0.7]) {
    const budget = Math.floor(wanted * share);
    const taken = await peak(budget);
    assert.ok(taken <= budget, `${taken} bytes of ${budget}`);
  }
  const refusal =
    /^Cannot load the model: it needs \d+ MB on the device, 0 MB may be taken; allow more memory, or choose a smaller model\n/;
  await assert.rejects(peak(256), { name: "OutOfMemoryError", message: refusal });
  await assert.rejects(loadModel(undefined, { maxVramBytes: 1e3 }), { message: refusal });
});

Deno.test("a device that is lost in the middle of a generation ends it with a reason, without a hang", async () => {
  using whole = damagedModel({});
  const device = await openDevice();
  try {
    using pipeline = await openPipeline(whole.folder);
    await pipeline.load(device);
    let steps = 0;
    const result = pipeline.generate({
      task: "T2I",
      prompt: "a",
      negativePrompt: "",
      width: 64,
      height: 64,
      numFrames: 1,
      seed: 1,
      numInferenceSteps: 50,
      guidanceScale: 3,
    }, { onProgress: () => void (++steps === 5 && device.gpuDevice.destroy()) });
    await assert.rejects(result, (error) => {
      assert.ok(error instanceof DeviceLostError, String(error));
      assert.match(error.message, /the device was lost .*; try again, and update its driver/);
      return true;
    });
  } finally {
    device.destroy();
  }
});
