/** LongCat-Image from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { ORIGINAL_LONGCAT_IMAGE } from "../../models/families/longcat_image/layouts.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  prefixed,
  renamed,
  tensorsOf,
  within,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("longcat_image/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const own = () => tensorsOf(`${golden.folder}/transformer`);
const text = () => within("model.language_model.", tensorsOf(`${golden.folder}/text_encoder`));

Deno.test({
  name:
    "files with LongCat-Image's transformer under either names, and its text encoder, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const encoder = prefixed("text_encoders.qwen25_7b.transformer.model.", text());
      for (const [i, transformer] of [renamed(own(), ORIGINAL_LONGCAT_IMAGE), own()].entries()) {
        const path = join(folder, `longcat_${i}.safetensors`);
        const named = prefixed("model.diffusion_model.", transformer);
        writeSafetensors(path, new Map([...named, ...encoder]));
        await cases.checkLatents("text", path, { vae: join(golden.folder, "vae") });
      }
    }),
});

Deno.test({
  name: "GGUF files of LongCat-Image and of Qwen2.5-VL give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["LongCat-Image-BF16", "Qwen2.5-VL-7B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, renamed(own(), ORIGINAL_LONGCAT_IMAGE), "flux");
      writeGguf(encoder, renamed(text(), LLAMA_CPP_QWEN), "qwen2vl");
      await cases.checkLatents("text", model, {
        textEncoder: encoder,
        vae: join(golden.folder, "vae"),
      });
    }),
});
