/** FLUX.2 dev against diffusers: same folder, prompt, images and seed, from text to pixels. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { ORIGINAL_FLUX2 } from "../../models/families/flux2/layouts.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { editRequest } from "../support/golden_request.ts";
import { DIFFUSERS_DIALECTS, ImagePipelineCases } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  interleaved,
  mapped,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const MULTIPLE = 4;
const cases = new ImagePipelineCases("flux2/dev", (golden, call) => ({
  ...editRequest(golden, call, MULTIPLE),
  ...(call.args["true_cfg_scale"] !== undefined && {
    trueCfgScale: call.args["true_cfg_scale"] as number,
  }),
}));
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test("Flux2Pipeline.generate() gives the reference's latents and images of dev, guided and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { defaults, maxImages } = pipeline.info;
    assert.deepEqual(
      [defaults.numInferenceSteps, defaults.guidanceScale, maxImages],
      [50, 4, 10],
    );
    await cases.check(t, pipeline, ["guided"]);
    await cases.checkDialects(pipeline, DIFFUSERS_DIALECTS);
    await cases.checkAdapted(t, pipeline);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "Flux2Pipeline.generate() gives the reference's of dev from text alone, cut, and of images, with previews; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      await cases.check(t, pipeline, ["text", "cut", "edit", "several"]);
      await cases.checkPreviews(pipeline, "cut");
    }, { folder: golden.folder }),
});

Deno.test({
  name:
    "Flux2Pipeline.generate() makes the same image of dev within any budget that it fits; with DENOISE_SLOW",
  ignore,
  fn: () => cases.checkBudgets(),
});

Deno.test({
  name:
    "files with FLUX.2 dev's transformer and Mistral Small, and GGUF files of them, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const vae = join(golden.folder, "vae");
      const transformer = renamed(tensorsOf(`${golden.folder}/transformer`), ORIGINAL_FLUX2);
      const text = tensorsOf(`${golden.folder}/text_encoder`);
      const language = mapped(
        new Map([...text].filter(([name]) => name.startsWith("model.language_model."))),
        (name, tensor) => [name.replace("language_model.", ""), tensor],
      );
      const [path, encoder] = ["flux2-dev", "mistral_3_small_flux2_bf16"]
        .map((name) => join(folder, `${name}.safetensors`)) as [string, string];
      writeSafetensors(path, transformer);
      writeSafetensors(encoder, language);
      await cases.checkLatents("cut", path, { textEncoder: encoder, vae });
      const [model, small] = ["flux2-dev-BF16", "Mistral-Small-3.2-24B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, transformer, "flux");
      const plain = mapped(language, (name, tensor) => [name.replace("model.", ""), tensor]);
      const moved = mapped(
        renamed(plain, LLAMA_CPP_QWEN),
        (name, tensor) => [name, /attn_[qk]\./.test(name) ? interleaved(tensor, 128) : tensor],
      );
      writeGguf(small, moved, "llama");
      await cases.checkLatents("cut", model, { textEncoder: small, vae });
    }),
});
