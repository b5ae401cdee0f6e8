/** The hires fix of Stable Diffusion against diffusers: latents, enlarged by torch, from which image to image starts. */
import assert from "node:assert/strict";
import { passesOf, startingFrom } from "../../engine/passes.ts";
import { toPipelineRequest } from "../../engine/result_size.ts";
import type { GenerateRequest, ModelInfo } from "../../engine/types.ts";
import { enlargeLatents, type LatentFilter } from "../../models/pipeline/enlarged_latents.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

Deno.test("enlargeLatents() gives torch's with every filter", () => {
  const golden = new Golden("stable_diffusion/hires_filters");
  for (const { name } of golden.calls) {
    const { data } = golden.tensor(name, "latents");
    const large = golden.tensor(name, "large");
    const [from, to] = [{ width: 8, height: 6 }, { width: 12, height: 9 }];
    const enlarged = enlargeLatents(Float32Array.from(data), from, to, name as LatentFilter);
    assertClose(name, { shape: large.shape, data: enlarged }, large, 1e-6);
  }
});

function requestOf({ args }: Pick<GoldenCall, "args">): GenerateRequest {
  return Object.fromEntries(
    Object.entries(args).map(([key, value]) => [
      key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  ) as unknown as GenerateRequest;
}

for (const [folder, model] of [["hires", "pipeline"], ["hires_xl", "xl_pipeline"]] as const) {
  Deno.test(`${folder}: both passes give the reference's latents and image`, async () => {
    const golden = new Golden(`stable_diffusion/${folder}`);
    await withPipeline(async ({ pipeline }) => {
      const info = { ...pipeline.info, maxPixels: Infinity } as ModelInfo;
      for (const { name, args } of golden.calls) {
        const [first, second] = passesOf(requestOf({ args }), info, 0);
        const base = toPipelineRequest(first!.request, info);
        const { latents } = await pipeline.generate(base, { isLatent: true });
        const ready = startingFrom(second!, { latents }, info);
        await checkImage(golden, name, pipeline, toPipelineRequest(ready.request, info));
      }
    }, { folder: new Golden(`stable_diffusion/${model}`).folder });
  });
}

Deno.test("hires_xl: a refiner takes over in both passes, and one that takes nothing changes nothing", async () => {
  const golden = new Golden("stable_diffusion/hires_xl");
  const [call] = golden.calls;
  const parts = { refiner: `${new Golden("stable_diffusion/refiner").folder}/unet` };
  await withPipeline(async ({ pipeline }) => {
    const info = { ...pipeline.info, maxPixels: Infinity } as ModelInfo;
    const both = async (refinerStart: number) => {
      const [first, second] = passesOf({ ...requestOf(call!), refinerStart }, info, 0);
      const base = toPipelineRequest(first!.request, info);
      const { latents } = await pipeline.generate(base, { isLatent: true });
      const ready = startingFrom(second!, { latents }, info);
      const own = await pipeline.generate(toPipelineRequest(ready.request, info));
      return [latents, own.latents] as const;
    };
    const [[first, alone], [refinedFirst, refined]] = [await both(1), await both(0.5)];
    const expected = golden.tensor(call!.name, "latents");
    assertClose("latents", { shape: expected.shape, data: alone }, expected, 1e-4);
    assert.ok([...refined, ...refinedFirst].every(Number.isFinite));
    assert.notDeepEqual(refinedFirst, first);
    assert.notDeepEqual(refined, alone);
  }, { folder: new Golden("stable_diffusion/xl_pipeline").folder, parts });
});
