/** Ovis-Image from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import {
  DIFFUSERS_OVIS_IMAGE,
  ORIGINAL_OVIS_IMAGE,
} from "../../models/families/ovis_image/names.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { Checkpoint } from "../../runtime/mod.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  bytesOf,
  prefixed,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("ovis_image/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

/** The transformer under the names of its authors, in which the layers of a gated feed-forward are two. */
function original() {
  using checkpoint = Checkpoint.open(`${golden.folder}/transformer`);
  return renamed(bytesOf(viewLayout(checkpoint, DIFFUSERS_OVIS_IMAGE)), ORIGINAL_OVIS_IMAGE);
}

Deno.test({
  name:
    "files with Ovis-Image's transformer under either names, and its text encoder, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const own = tensorsOf(`${golden.folder}/transformer`);
      const text = prefixed(
        "text_encoders.ovis_2.5.transformer.model.",
        tensorsOf(`${golden.folder}/text_encoder`),
      );
      for (const [i, transformer] of [original(), own].entries()) {
        const path = join(folder, `ovis_${i}.safetensors`);
        const named = prefixed("model.diffusion_model.", transformer);
        writeSafetensors(path, new Map([...named, ...text]));
        await cases.checkLatents("text", path, { vae: join(golden.folder, "vae") });
      }
    }),
});

Deno.test({
  name: "GGUF files of Ovis-Image and of Qwen3 give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["ovis_image-BF16", "Ovis2.5-2B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, original(), "flux");
      writeGguf(
        encoder,
        renamed(tensorsOf(`${golden.folder}/text_encoder`), LLAMA_CPP_QWEN),
        "qwen3",
      );
      await cases.checkLatents("text", model, {
        textEncoder: encoder,
        vae: join(golden.folder, "vae"),
      });
    }),
});
