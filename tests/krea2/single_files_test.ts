/** Krea 2 from single files: the same latents as from the folder that holds the same numbers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { ORIGINAL_KREA2 } from "../../models/families/krea2/layouts.ts";
import { openPipeline } from "../../models/mod.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  type Bytes,
  mapped,
  prefixed,
  renamed,
  tensorsOf,
  within,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("krea2/pipeline");
const { golden } = cases;
type Tensors = ReadonlyMap<string, Bytes>;

/** As Krea names them: the vectors of a block's table in one row. */
function original(prefix: string): Tensors {
  const own = renamed(tensorsOf(`${golden.folder}/transformer`), ORIGINAL_KREA2);
  return mapped(own, (name, tensor) => {
    const shape = name.endsWith(".mod.lin") ? [tensor.shape[0]! * tensor.shape[1]!] : tensor.shape;
    return [prefix + name, { ...tensor, shape }];
  });
}

Deno.test({
  name:
    "a file with Krea 2 Turbo's transformer, text encoder and autoencoder gives diffusers' latents; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      const encoder = prefixed(
        "text_encoders.qwen3vl_4b.transformer.model.",
        tensorsOf(`${golden.folder}/text_encoder`),
      );
      const vae = prefixed("vae.", tensorsOf(`${golden.folder}/vae`));
      const path = join(folder, "krea2_turbo_all.safetensors");
      writeSafetensors(path, new Map([...original("model.diffusion_model."), ...encoder, ...vae]));
      await cases.checkLatents("turbo", path, {});
    }),
});

Deno.test({
  name:
    "GGUF files of Krea 2 Raw and Qwen3-VL give diffusers' latents, and one of Qwen3 is refused; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      const [model, encoder, other] = ["Krea-2-Raw-BF16", "Qwen3-VL-4B", "Qwen3-4B"]
        .map((name) => join(folder, `${name}.gguf`)) as [string, string, string];
      const language = within("language_model.", tensorsOf(`${golden.folder}/text_encoder`));
      const llama = renamed(language, LLAMA_CPP_QWEN);
      writeGguf(model, original(""), "krea2");
      writeGguf(encoder, llama, "qwen3vl");
      writeGguf(other, llama, "qwen3");
      const vae = join(golden.folder, "vae");
      await cases.checkLatents("cut", model, { textEncoder: encoder, vae });
      using blind = await openPipeline(model, {
        textEncoder: encoder,
        vae,
        tokenizer: golden.folder,
      });
      assert.equal(blind.info.maxReferences, undefined);
      await assert.rejects(
        openPipeline(model, { textEncoder: other, vae, tokenizer: golden.folder }),
        /Qwen3Model/,
      );
    }),
});
