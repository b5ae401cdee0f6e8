/** FLUX.3 from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { ORIGINAL_FLUX3 } from "../../models/families/flux3/layouts.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { Golden } from "../support/golden.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  type Bytes,
  prefixed,
  renamed,
  tensorsOf,
  within,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("flux3/pipeline");
const distilled = new Golden("flux3/distilled").folder;
const { folder: base } = cases.golden;
const ignore = !Deno.env.has("DENOISE_SLOW");

/** The transformer under the original names. */
function original(folder: string): Map<string, Bytes> {
  return renamed(tensorsOf(`${folder}/transformer`), ORIGINAL_FLUX3);
}

Deno.test({
  name:
    "a file with FLUX.3's transformer and text encoder gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const path = join(folder, "flux3_image_klein_base.safetensors");
      const text = tensorsOf(`${base}/text_encoder`);
      writeSafetensors(
        path,
        new Map([
          ...prefixed("model.diffusion_model.", original(base)),
          ...prefixed("text_encoders.qwen3vl_4b.transformer.", text),
        ]),
      );
      await cases.checkLatents("text", path, { vae: join(base, "vae") });
    }),
});

Deno.test({
  name: "GGUF files of FLUX.3 and Qwen3-VL give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["FLUX-3-Image-Klein", "Qwen3-VL-4B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, original(distilled), "flux3");
      const text = within("model.language_model.", tensorsOf(`${base}/text_encoder`));
      writeGguf(encoder, renamed(text, LLAMA_CPP_QWEN), "qwen3vl");
      const few = new ImagePipelineCases("flux3/distilled");
      const parts = { textEncoder: encoder, vae: join(base, "vae"), tokenizer: base };
      await few.checkLatents("text", model, parts);
    }),
});
