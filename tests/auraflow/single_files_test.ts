/** AuraFlow from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { ORIGINAL_AURAFLOW } from "../../models/families/auraflow/layouts.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  prefixed,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("auraflow/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const own = () => tensorsOf(`${golden.folder}/transformer`);
const parts = {
  textEncoder: join(golden.folder, "text_encoder"),
  vae: join(golden.folder, "vae"),
};

Deno.test({
  name:
    "files with AuraFlow's transformer under either names give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      for (const [i, transformer] of [renamed(own(), ORIGINAL_AURAFLOW), own()].entries()) {
        const path = join(folder, `aura_${i}.safetensors`);
        const prefix = i === 0 ? "model." : "model.diffusion_model.";
        writeSafetensors(path, prefixed(prefix, transformer));
        await cases.checkLatents("text", path, parts);
      }
    }),
});

Deno.test({
  name: "a GGUF file of AuraFlow gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const path = join(folder, "aura_flow-BF16.gguf");
      writeGguf(path, renamed(own(), ORIGINAL_AURAFLOW), "aura");
      await cases.checkLatents("text", path, parts);
    }),
});
