/** ERNIE-Image from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  interleaved,
  mapped,
  prefixed,
  renamed,
  tensorsOf,
  within,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("ernie_image/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");
const HEAD_DIM = 128;

const component = (name: string) => tensorsOf(`${golden.folder}/${name}`);

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
          ...prefixed("model.diffusion_model.", component("transformer")),
          ...prefixed("text_encoders.ministral3_3b.transformer.", component("text_encoder")),
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
      writeGguf(model, component("transformer"), "ernie_image");
      const moved = mapped(
        renamed(within("language_model.", component("text_encoder")), LLAMA_CPP_QWEN),
        (name, tensor) => [name, /attn_[qk]\./.test(name) ? interleaved(tensor, HEAD_DIM) : tensor],
      );
      writeGguf(encoder, moved, "mistral3");
      await cases.checkLatents("text", model, {
        textEncoder: encoder,
        vae: join(golden.folder, "vae"),
      });
    }),
});
