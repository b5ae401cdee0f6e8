/** Stable Diffusion 3 from single files: the same images as from the folder that holds the same numbers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { originalKlLayout } from "../../models/autoencoders/kl/format.ts";
import { quantizeCheckpoint } from "../../models/checkpoints/quantize/mod.ts";
import { originalSd3 } from "../../models/families/stable_diffusion_3/layouts.ts";
import { type ModelParts, openPipeline } from "../../models/mod.ts";
import { encodeGguf, type GgufTensor } from "../support/gguf.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";
import { withFolder } from "../support/safetensors.ts";
import { prefixed, renamed, tensorsOf, writeSafetensors } from "../support/single_files.ts";

const GOLDEN = new Golden("stable_diffusion_3/pipeline");
const CALL = GOLDEN.call("turbo");
const BLOCKS = 3;

const TRANSFORMER = () =>
  renamed(tensorsOf(join(GOLDEN.folder, "transformer")), originalSd3(BLOCKS));

// The small CLIPs of the golden are not as wide as those that are known by their files.
const CLIPS = {
  textEncoder: join(GOLDEN.folder, "text_encoder"),
  textEncoder2: join(GOLDEN.folder, "text_encoder_2"),
  tokenizer: GOLDEN.folder,
};
const OTHERS = { ...CLIPS, textEncoder3: join(GOLDEN.folder, "text_encoder_3") };

async function made(model: string, parts: ModelParts) {
  const device = await openTestDevice();
  using pipeline = await openPipeline(model, parts);
  try {
    assert.equal(pipeline.info.className, "StableDiffusion3Pipeline");
    await pipeline.load(device);
    const { latents, frames } = await pipeline.generate(textRequest(CALL));
    return { latents, pixels: frames[0]!, defaults: pipeline.info.defaults };
  } finally {
    device.destroy();
  }
}

async function checkLatents(model: string, parts: ModelParts, steps: number): Promise<void> {
  const { latents, defaults } = await made(model, parts);
  assert.equal(defaults.numInferenceSteps, steps);
  const expected = GOLDEN.tensor(CALL.name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, 1e-4);
}

Deno.test("a file with the transformer, T5 and the autoencoder of SD 3.5, as ComfyUI joins them, gives diffusers' latents", () =>
  withFolder({}, async (folder) => {
    const t5 = tensorsOf(join(GOLDEN.folder, "text_encoder_3"));
    const vae = renamed(tensorsOf(join(GOLDEN.folder, "vae")), originalKlLayout(2));
    const path = join(folder, "sd3.5_large_turbo.safetensors");
    writeSafetensors(
      path,
      new Map([
        ...prefixed("model.diffusion_model.", TRANSFORMER()),
        ...prefixed("text_encoders.t5xxl.transformer.", t5),
        ...prefixed("first_stage_model.", vae),
      ]),
    );
    await checkLatents(path, CLIPS, 4);
  }));

Deno.test({
  name:
    "GGUF files of the transformer of SD 3.5 give diffusers' latents, quantised too; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      const types: Readonly<Record<string, number>> = { F32: 0, F16: 1, BF16: 30 };
      const path = join(folder, "sd3.5_medium-BF16.gguf");
      const tensors = [...TRANSFORMER()].map(([name, { format, shape, bytes }]) => {
        // GGML knows no first sizes of 1.
        const own = name === "pos_embed" ? shape.slice(1) : shape;
        const tensor: GgufTensor = { type: types[format]!, shape: own, data: bytes };
        return [name, tensor] as const;
      });
      Deno.writeFileSync(path, encodeGguf({ tensors }));
      const parts = { ...OTHERS, vae: join(GOLDEN.folder, "vae") };
      // The file of an autoencoder's folder says its own scale.
      await checkLatents(path, parts, 40);
      const quantised = join(folder, "sd3.5_medium-Q8_0.gguf");
      await quantizeCheckpoint(join(GOLDEN.folder, "transformer"), quantised, { type: "q8_0" });
      const { pixels } = await made(quantised, parts);
      const decibels = psnr(pixels, GOLDEN.tensor(CALL.name, "image").data);
      assert.ok(decibels > 30 && decibels < 90, `${decibels}`);
    }),
});

Deno.test("openPipeline() says what a file of SD 3.5 lacks, and that its T5 needs a tokenizer", () =>
  withFolder({}, async (folder) => {
    const before = Deno.env.get("HF_HUB_CACHE");
    Deno.env.set("HF_HUB_CACHE", folder);
    try {
      const path = join(folder, "sd3.5_medium.safetensors");
      writeSafetensors(path, TRANSFORMER());
      const vae = join(GOLDEN.folder, "vae");
      const tokenizer = join(GOLDEN.folder, "tokenizer");
      const parts = { ...OTHERS, vae, tokenizer };
      await assert.rejects(
        openPipeline(path, parts),
        /the second tokenizer and third tokenizer are missing; name each with parts.tokenizer2 and parts.tokenizer3: a path or a hub id, such as stabilityai\/stable-diffusion-3.5-medium/,
      );
      const { textEncoder3: _, ...without } = parts;
      using pipeline = await openPipeline(path, {
        ...without,
        tokenizer2: join(GOLDEN.folder, "tokenizer_2"),
      });
      assert.equal(pipeline.info.maxSequenceLength, 512);
    } finally {
      if (before === undefined) Deno.env.delete("HF_HUB_CACHE");
      else Deno.env.set("HF_HUB_CACHE", before);
    }
  }));
