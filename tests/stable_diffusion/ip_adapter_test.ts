/** Stable Diffusion with IP-Adapters against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openPipeline } from "../../models/mod.ts";
import { withComposed } from "../support/composed.ts";
import { checkControlled } from "../support/controlled.ts";
import { Golden } from "../support/golden.ts";

const SD = new Golden("stable_diffusion/pipeline");
const XL = new Golden("stable_diffusion/xl_pipeline");
const SD15 = new Golden("ip_adapters/sd15");
const PARTS = { ipAdapter: "adapter/ip-adapter.safetensors" };
const TWO = { ...PARTS, ipAdapter2: "adapter_2/ip-adapter.safetensors" };
const STEERED = { ...PARTS, controlnet: "net" };

Deno.test(
  "StableDiffusionPipeline.generate() sees two images by an IP-Adapter as in diffusers, steered by a ControlNet; with DENOISE_SLOW",
  { ignore: !Deno.env.has("DENOISE_SLOW") },
  (t) => checkControlled(t, [SD15, SD], ["steered"], STEERED),
);

Deno.test("StableDiffusionXLPipeline.generate() sees an image by an IP-Adapter Plus as in diffusers, guided", (t) =>
  checkControlled(t, [new Golden("ip_adapters/sdxl_plus"), XL], ["guided"], PARTS));

Deno.test("StableDiffusionPipeline.generate() sees images by two IP-Adapters as in diffusers, each where its mask is white", (t) =>
  checkControlled(t, [new Golden("ip_adapters/sd15_several"), SD], ["masked"], TWO));

const SLOW = {
  "SD 1.5, from text, an image and a mask,": [SD15, SD, STEERED],
  "SD 1.5, Plus,": [new Golden("ip_adapters/sd15_plus"), SD, PARTS],
  "SD 1.5, Full Face,": [new Golden("ip_adapters/sd15_full"), SD, PARTS],
  SDXL: [new Golden("ip_adapters/sdxl"), XL, PARTS],
  "SD 1.5, two,": [new Golden("ip_adapters/sd15_several"), SD, TWO],
  "SDXL, two,": [new Golden("ip_adapters/sdxl_several"), XL, TWO],
  "SDXL, Plus,": [new Golden("ip_adapters/sdxl_plus"), XL, PARTS],
} as const;

for (const [words, [golden, model, parts]] of Object.entries(SLOW)) {
  Deno.test({
    name: `${words} sees images by an IP-Adapter as in diffusers; with DENOISE_SLOW`,
    ignore: !Deno.env.has("DENOISE_SLOW"),
    fn: (t) => checkControlled(t, [golden, model], undefined, parts),
  });
}

Deno.test("openPipeline() refuses IP-Adapters of other models and without their image encoder, with the sizes", async () => {
  await withComposed([SD15, SD], async (folder) => {
    const ipAdapter = join(folder, PARTS.ipAdapter);
    await withComposed([XL], (other) =>
      assert.rejects(
        openPipeline(other, { ipAdapter }),
        /the IP-Adapter's cross_attention_dim is 32, the transformer's cross_attention_dim is 72/,
      ));
    Deno.renameSync(join(folder, "image_encoder"), join(folder, "eyes"));
    await assert.rejects(
      openPipeline(folder, { ipAdapter }),
      /without its image encoder, a CLIP tower with a projection_dim of 24: .* --image-encoder/,
    );
    using pipeline = await openPipeline(folder, { ipAdapter, imageEncoder: join(folder, "eyes") });
    const { maxReferences, referenceSide, optionalParts } = pipeline.info;
    assert.deepEqual([maxReferences, referenceSide, optionalParts], [8, 28, ["ipAdapter"]]);
  });
});
