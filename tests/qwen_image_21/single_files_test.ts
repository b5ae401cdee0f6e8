/** Qwen-Image-2.1 from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { textRequest } from "../support/golden_request.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  mapped,
  prefixed,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases(
  "qwen_image_21/pipeline",
  (_, call) => ({ ...textRequest(call), guidanceScale: 1 }),
);
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const component = (name: string) => tensorsOf(`${golden.folder}/${name}`);

Deno.test({
  name:
    "a file with Qwen-Image-2.1's transformer, text encoder and autoencoder gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const path = join(folder, "qwen_image_21_all.safetensors");
      writeSafetensors(
        path,
        new Map([
          ...prefixed("model.diffusion_model.", component("transformer")),
          ...prefixed("text_encoders.qwen3vl_8b.transformer.", component("text_encoder")),
          ...prefixed("vae.", component("vae")),
        ]),
      );
      await cases.checkLatents("text", path, {});
    }),
});

Deno.test({
  name: "GGUF files of Qwen-Image-2.1 and Qwen3-VL give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["Qwen-Image-2.1-BF16", "Qwen3-VL-8B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, component("transformer"), "qwen_image");
      const text = mapped(
        component("text_encoder"),
        (name, tensor) => [name.replace("model.language_model.", ""), tensor],
      );
      const llama = renamed(
        new Map([...text].filter(([name]) => !/visual\./.test(name))),
        LLAMA_CPP_QWEN,
      );
      writeGguf(encoder, llama, "qwen3vl");
      await cases.checkLatents("text", model, {
        textEncoder: encoder,
        vae: join(golden.folder, "vae"),
      });
    }),
});
