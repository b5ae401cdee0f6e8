/** Whole pipelines against diffusers: same folder, prompt and seed, from text to pixels. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { resize } from "../../media/resize.ts";
import { openPipeline } from "../../models/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";
import { assertCall, requestOf } from "./requests.ts";

Deno.test("WanPipeline.generate() gives the same with sequential as with batched guidance", async () => {
  const golden = new Golden("wan/pipeline-t2v");
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder);
  try {
    await pipeline.load(device);
    const request = requestOf(golden, golden.call("image"));
    const batched = await pipeline.generate({ ...request, guidancePasses: "batched" });
    const sequential = await pipeline.generate({ ...request, guidancePasses: "sequential" });
    const shape = [batched.latents.length];
    assertClose(
      "latents",
      { shape, data: sequential.latents },
      { shape, data: batched.latents },
      1e-5,
    );
  } finally {
    device.destroy();
  }
});

Deno.test("WanPipeline.generate() brings references of VACE to whole latents before they are fitted, as diffusers does", async () => {
  const golden = new Golden("wan/pipeline-vace");
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder);
  try {
    await pipeline.load(device);
    const { references: [image] = [], ...request } = requestOf(golden, golden.call("references"));
    const odd = resize(image!, 29, 37, "bicubic");
    const first = await pipeline.generate({ ...request, references: [odd] });
    const second = await pipeline.generate({ ...request, references: [resize(odd, 24, 32)] });
    assert.deepEqual(first.latents, second.latents);
  } finally {
    device.destroy();
  }
});

/** Goldens, and where their model is when it does not lie beside them. */
const PIPELINES: readonly (readonly [name: string, model?: URL])[] = [
  ["wan/pipeline-t2v"],
  ["wan/pipeline-ti2v"],
  ["wan/pipeline-t2v-experts"],
  ["wan/pipeline-i2v-experts"],
  ["wan/pipeline-i2v"],
  ["wan/pipeline-flf2v"],
  ["wan/pipeline-vace"],
  ["wan/pipeline-vace-experts"],
  ["bundled", new URL("../../models/bundled", import.meta.url)],
];

for (const [name, model] of PIPELINES) {
  Deno.test(`WanPipeline.generate() gives the frames of diffusers: ${name}`, async (t) => {
    const golden = new Golden(name);
    const device = await openTestDevice({}, model ? "usual" : "short");
    using pipeline = await openPipeline(model ? fileURLToPath(model) : golden.folder);
    try {
      await pipeline.load(device);
      for (const call of golden.calls) {
        await t.step(call.name, () => assertCall(pipeline, golden, call));
      }
    } finally {
      device.destroy();
    }
  });
}
