/** Ideogram 4 from single files and under its original names: the same latents as from the folder that holds the same numbers. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { ORIGINAL_IDEOGRAM4 } from "../../models/families/ideogram4/names.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  type Bytes,
  renamed,
  tensorsOf,
  within,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("ideogram4/pipeline");
const { folder: own } = cases.golden;
const ignore = !Deno.env.has("DENOISE_SLOW");
const TRANSFORMERS = ["transformer", "unconditional_transformer"];

function original(name: string): Map<string, Bytes> {
  return renamed(tensorsOf(`${own}/${name}`), ORIGINAL_IDEOGRAM4);
}

Deno.test({
  name:
    "files with Ideogram 4's transformers, and GGUF files of them and of Qwen3-VL, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const vae = join(own, "vae");
      const paths = TRANSFORMERS.map((name) => join(folder, `${name}.safetensors`));
      paths.forEach((path, i) => writeSafetensors(path, original(TRANSFORMERS[i]!)));
      const [path, transformer2] = paths as [string, string];
      await cases.checkLatents("guided", path, { transformer2, textEncoder: own, vae });
      const files = TRANSFORMERS.map((name) => join(folder, `${name}.gguf`));
      files.forEach((path, i) => writeGguf(path, original(TRANSFORMERS[i]!), "ideogram4"));
      const encoder = join(folder, "Qwen3-VL-8B.gguf");
      const text = within("language_model.", tensorsOf(`${own}/text_encoder`));
      writeGguf(encoder, renamed(text, LLAMA_CPP_QWEN), "qwen3vl");
      const [model, second] = files as [string, string];
      const parts = { transformer2: second, textEncoder: encoder, vae };
      await cases.checkLatents("guided", model, parts);
    }),
});

Deno.test({
  name:
    "a folder of Ideogram 4 under the original names gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      cpSync(own, folder, { recursive: true });
      for (const name of TRANSFORMERS) {
        const path = join(folder, name);
        const tensors = original(name);
        Deno.removeSync(path, { recursive: true });
        Deno.mkdirSync(path);
        cpSync(join(own, name, "config.json"), join(path, "config.json"));
        writeSafetensors(join(path, "diffusion_pytorch_model.safetensors"), tensors);
      }
      await cases.checkLatents("guided", folder, {});
    }),
});
