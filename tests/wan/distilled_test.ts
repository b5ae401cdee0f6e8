/** FastWan's folders: Wan's own, with another class of pipeline that says how they are sampled. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loadModel } from "../../mod.ts";
import { openPipeline } from "../../models/mod.ts";
import { Golden } from "../support/golden.ts";

/** The folder of a golden under another class, with a transformer that says more of itself. */
async function distilled(
  golden: string,
  said: object = {},
): Promise<{ folder: string } & AsyncDisposable> {
  const own = new Golden(golden).folder;
  const folder = await Deno.makeTempDir();
  const files = (await Array.fromAsync(Deno.readDir(own))).map(({ name }) => name);
  for (const name of files.filter((name) => !["model_index.json", "transformer"].includes(name))) {
    await Deno.symlink(join(own, name), join(folder, name));
  }
  const place = join(folder, "transformer");
  await Deno.mkdir(place);
  for await (const { name } of Deno.readDir(join(own, "transformer"))) {
    const path = join(own, "transformer", name);
    if (name !== "config.json") await Deno.symlink(path, join(place, name));
    else {
      const config = JSON.parse(await Deno.readTextFile(path));
      await Deno.writeTextFile(join(place, name), JSON.stringify({ ...config, ...said }));
    }
  }
  const index = JSON.parse(await Deno.readTextFile(join(own, "model_index.json")));
  const changed = JSON.stringify({ ...index, _class_name: "WanDMDPipeline" });
  await Deno.writeTextFile(join(folder, "model_index.json"), changed);
  return { folder, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

Deno.test("a distilled Wan samples by DMD in three steps without guidance, and by LCM in others", async () => {
  await using model = await distilled("wan/pipeline-t2v");
  const { folder } = model;
  const request = { prompt: "a red circle", width: 32, height: 32, seed: 7 };
  await using fast = await loadModel(folder);
  const { sampler, numInferenceSteps, guidanceScale, width, height, numFrames } =
    fast.info.defaults;
  assert.deepEqual([sampler, numInferenceSteps, guidanceScale], ["dmd", 3, 1]);
  assert.deepEqual([width, height, numFrames], [832, 448, 61]);

  await using plain = await loadModel(new Golden("wan/pipeline-t2v").folder);
  const same = async (asked: object, written: object) => {
    const [own] = await fast.generate({ ...request, ...asked });
    const [other] = await plain.generate({ ...request, guidanceScale: 1, ...written });
    assert.deepEqual(own.data, other.data);
  };
  await same({}, { sampler: "dmd" });
  await same({ numInferenceSteps: 4 }, { sampler: "lcm", numInferenceSteps: 4 });
});

Deno.test("a distilled Wan that takes first frames keeps its size", async () => {
  await using model = await distilled("wan/pipeline-ti2v");
  using pipeline = await openPipeline(model.folder);
  const { sampler, width } = pipeline.info.defaults;
  assert.deepEqual([sampler, width], ["dmd", 96]);
  assert.ok(pipeline.info.supportedTasks.includes("I2V"));
});

Deno.test("openPipeline() refuses TurboWan, whose attention is another, by what its transformer says", async () => {
  await using model = await distilled("wan/pipeline-t2v", { attention_type: "sla", sla_topk: 0.1 });
  await assert.rejects(openPipeline(model.folder), /attention_type is "?sla"?/);
});
