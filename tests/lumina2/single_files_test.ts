/** Lumina-Image 2.0 from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import { decodeElements, encodeElements } from "../../runtime/dtype.ts";
import { ORIGINAL_LUMINA2 } from "../../models/families/lumina2/layouts.ts";
import { LLAMA_CPP_GEMMA3 } from "../../models/text_encoders/gemma3_config.ts";
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

const cases = new ImagePipelineCases("lumina2/pipeline");
const { golden } = cases;
const ignore = !Deno.env.has("DENOISE_SLOW");

const original = () => renamed(tensorsOf(`${golden.folder}/transformer`), ORIGINAL_LUMINA2);

Deno.test({
  name:
    "a file with Lumina 2's transformer under its original names and text encoder gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const path = join(folder, "lumina_2.safetensors");
      const text = tensorsOf(`${golden.folder}/text_encoder`);
      writeSafetensors(
        path,
        new Map([
          ...prefixed("model.diffusion_model.", original()),
          ...prefixed("text_encoders.gemma2_2b.transformer.model.", text),
        ]),
      );
      await cases.checkLatents("text", path, { vae: join(golden.folder, "vae") });
    }),
});

Deno.test({
  name:
    "GGUF files of Lumina 2 and of Gemma 2, whose norms are llama.cpp's, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["lumina2-BF16", "gemma-2-2b"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      writeGguf(model, original(), "lumina2");
      const text = mapped(tensorsOf(`${golden.folder}/text_encoder`), (name, tensor) => {
        if (!/norm\.weight$/.test(name)) return [name, tensor];
        const values = decodeElements(tensor.bytes, "bf16").map((value) => value + 1);
        return [name, { ...tensor, format: "F32", bytes: encodeElements(values, "f32") }];
      });
      writeGguf(encoder, renamed(text, LLAMA_CPP_GEMMA3), "gemma2");
      await cases.checkLatents("text", model, {
        textEncoder: encoder,
        vae: join(golden.folder, "vae"),
      });
    }),
});
