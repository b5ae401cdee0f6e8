/** ERNIE-Image from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  type Bytes,
  interleaved,
  mapped,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("ernie_image/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");
const HEAD_DIM = 128;

/** A component's tensors, `name` for those that `rename` gives one. */
function component(folder: string, rename: (name: string) => string): Map<string, Bytes> {
  return mapped(tensorsOf(`${golden.folder}/${folder}`), (name, tensor) => [rename(name), tensor]);
}

Deno.test({
  name:
    "a file with ERNIE-Image's transformer and text encoder gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const path = join(folder, "ernie_image.safetensors");
      writeSafetensors(
        path,
        new Map([
          ...component("transformer", (name) => `model.diffusion_model.${name}`),
          ...component("text_encoder", (name) => `text_encoders.ministral3_3b.transformer.${name}`),
        ]),
      );
      await cases.checkLatents("text", path, { vae: join(golden.folder, "vae") });
    }),
});

Deno.test({
  name: "GGUF files of ERNIE-Image and Ministral 3 give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["ERNIE-Image-BF16", "Ministral-3-3B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, component("transformer", (name) => name), "ernie_image");
      const language = component("text_encoder", (name) => name.replace("language_model.", ""));
      const text = [...language].filter(([name]) => !/^(vision_tower|multi_modal)/.test(name));
      const moved = mapped(
        renamed(new Map(text), LLAMA_CPP_QWEN),
        (name, tensor) => [name, /attn_[qk]\./.test(name) ? interleaved(tensor, HEAD_DIM) : tensor],
      );
      writeGguf(encoder, moved, "mistral3");
      await cases.checkLatents("text", model, {
        textEncoder: encoder,
        vae: join(golden.folder, "vae"),
      });
    }),
});
