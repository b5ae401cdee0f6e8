/** HunyuanVideo 1.5 from single files: the same latents as from the folder that holds the same numbers. */
import { join } from "node:path";
import {
  COMFY_HUNYUAN_VIDEO_15,
  ORIGINAL_HUNYUAN_VIDEO_15,
} from "../../models/families/hunyuan_video_15/layouts.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
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

const cases = new ImagePipelineCases("hunyuan_video_15/pipeline");
const { folder: base } = cases.golden;
const ignore = !Deno.env.has("DENOISE_SLOW");

Deno.test({
  name:
    "a file with HunyuanVideo 1.5's transformer, text encoders and autoencoder gives diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const part = (name: string, prefix: string) => prefixed(prefix, tensorsOf(`${base}/${name}`));
      const transformer = renamed(tensorsOf(`${base}/transformer`), ORIGINAL_HUNYUAN_VIDEO_15);
      const path = join(folder, "hunyuanvideo1.5_480p_t2v_all.safetensors");
      writeSafetensors(
        path,
        new Map([
          ...prefixed("model.diffusion_model.", transformer),
          ...part("text_encoder", "text_encoders.qwen25_7b.transformer.model."),
          ...part("text_encoder_2", "text_encoders.byt5_small.transformer."),
          ...part("vae", "vae."),
        ]),
      );
      await cases.checkLatents("guided", path, {});
    }),
});

Deno.test({
  name:
    "GGUF files of HunyuanVideo 1.5 and Qwen2.5-VL, and ByT5's file, give diffusers' latents; with DENOISE_SLOW",
  ignore,
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder] = ["hunyuanvideo1.5_480p_t2v", "Qwen2.5-VL-7B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string];
      // GGUF has no more than four dimensions.
      const transformer = mapped(
        renamed(tensorsOf(`${base}/transformer`), COMFY_HUNYUAN_VIDEO_15),
        (name, tensor) => [name, { ...tensor, shape: withoutOnes(tensor.shape) }],
      );
      writeGguf(model, transformer, "hyvid");
      const language = prefixed("model.", tensorsOf(`${base}/text_encoder`));
      writeGguf(encoder, renamed(language, LLAMA_CPP_QWEN), "qwen2vl");
      const glyphs = join(folder, "byt5_small_glyphxl.safetensors");
      writeSafetensors(glyphs, tensorsOf(`${base}/text_encoder_2`));
      const parts = { textEncoder: encoder, textEncoder2: glyphs, vae: join(base, "vae") };
      await cases.checkLatents("guided", model, parts);
    }),
});

function withoutOnes(shape: readonly number[]): number[] {
  return shape.length > 4 ? shape.filter((size) => size > 1) : [...shape];
}
