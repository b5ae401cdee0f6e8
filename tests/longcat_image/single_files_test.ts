/** LongCat-Image from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { ORIGINAL_LONGCAT_IMAGE } from "../../models/families/longcat_image/layouts.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  mapped,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("longcat_image/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const own = () => tensorsOf(`${golden.folder}/transformer`);
const text = () =>
  mapped(
    tensorsOf(`${golden.folder}/text_encoder`),
    (name, tensor) => [name.replace(/^model\.language_model\./, ""), tensor],
  );

Deno.test({
  name:
    "files with LongCat-Image's transformer under either names, and its text encoder, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const encoder = mapped(
        text(),
        (name, x) => [`text_encoders.qwen25_7b.transformer.model.${name}`, x],
      );
      for (const [i, transformer] of [renamed(own(), ORIGINAL_LONGCAT_IMAGE), own()].entries()) {
        const path = join(folder, `longcat_${i}.safetensors`);
        const named = mapped(transformer, (name, x) => [`model.diffusion_model.${name}`, x]);
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
