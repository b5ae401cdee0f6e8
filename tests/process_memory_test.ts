/** That the process takes little more than the plan said, on the software adapter, where the device's memory is its own. */
import assert from "node:assert/strict";
import { openEngine, planModel } from "../engine/mod.ts";
import type { GenerateRequest } from "../engine/types.ts";

const BUNDLED = new URL("../models/bundled", import.meta.url).pathname;

/** What the process may take beside the plan. */
const OWN_BYTES = 1e9;

const SMALL: GenerateRequest = {
  prompt: "a red circle",
  width: 96,
  height: 96,
  seed: 7,
  numInferenceSteps: 2,
  guidanceScale: 3.5,
};

/** The bundled model as one that draws every size as it is asked for. */
async function modelOfEverySize(): Promise<string> {
  const folder = await Deno.makeTempDir();
  for await (const { name, isDirectory } of Deno.readDir(BUNDLED)) {
    if (isDirectory) await Deno.symlink(`${BUNDLED}/${name}`, `${folder}/${name}`);
  }
  const { _native_sides, ...index } = JSON.parse(
    await Deno.readTextFile(`${BUNDLED}/model_index.json`),
  );
  await Deno.writeTextFile(`${folder}/model_index.json`, JSON.stringify(index));
  return folder;
}

for (const [width, height, numFrames] of [[1024, 1024, 65], [4080, 4096, 1]] as const) {
  Deno.test({
    name: `a cancelled ${width}x${height} of ${numFrames} leaves the process small; DENOISE_SLOW`,
    ignore: !Deno.env.has("DENOISE_SLOW") || Deno.build.os !== "linux",
    async fn() {
      const modelPath = await modelOfEverySize();
      const options = { modelPath, forceSoftware: true };
      const { memory } = await planModel(options, { width, height, numFrames });
      const engine = await openEngine(options);
      let most = 0;
      const sampling = setInterval(() => most = Math.max(most, Deno.memoryUsage().rss), 100);
      try {
        const { peakBytes } = await engine.generate(SMALL);
        const before = Deno.memoryUsage().rss;
        const large = engine.generate({ ...SMALL, width, height, numFrames }, {
          signal: AbortSignal.timeout(20_000),
        });
        await assert.rejects(large, { name: "TimeoutError" });
        assert.ok(
          most - before < memory.peakBytes + OWN_BYTES,
          `${most - before} bytes while it ran`,
        );
        assert.equal((await engine.generate(SMALL)).peakBytes, peakBytes);
        const after = Deno.memoryUsage().rss;
        assert.ok(after - before < OWN_BYTES, `${after - before} bytes afterwards`);
      } finally {
        clearInterval(sampling);
        await engine.close();
        await Deno.remove(modelPath, { recursive: true });
      }
    },
  });
}
