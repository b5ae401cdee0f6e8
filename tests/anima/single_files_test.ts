/** Anima from single files: the same latents as from the folder that holds the same numbers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { ORIGINAL_ANIMA } from "../../models/families/anima/layouts.ts";
import { openPipeline } from "../../models/mod.ts";
import { LLAMA_CPP_QWEN } from "../../models/text_encoders/qwen3.ts";
import { ImagePipelineCases } from "../support/image_pipeline.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  type Bytes,
  prefixed,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("anima/pipeline");
const { golden } = cases;
const vae = join(golden.folder, "vae");

/** As files of the model have it: the text conditioner beside the transformer. */
function original(prefix: string): Map<string, Bytes> {
  const conditioner = tensorsOf(`${golden.folder}/text_conditioner`);
  const own = renamed(tensorsOf(`${golden.folder}/transformer`), ORIGINAL_ANIMA);
  return new Map([
    ...prefixed(prefix, own),
    ...prefixed(`${prefix}llm_adapter.`, conditioner),
  ]);
}

Deno.test("files of Anima as safetensors and GGUF give diffusers' latents, and need a tokenizer of T5", () =>
  withFolder({}, async (folder) => {
    const [model, gguf, encoder] = ["anima.safetensors", "anima-Q8_0.gguf", "Qwen3-0.6B.gguf"]
      .map((name) => join(folder, name)) as [string, string, string];
    writeSafetensors(model, original("net."));
    writeGguf(gguf, original(""), "cosmos");
    const language = tensorsOf(`${golden.folder}/text_encoder`);
    writeGguf(encoder, renamed(language, LLAMA_CPP_QWEN), "qwen3");
    if (Deno.env.has("DENOISE_SLOW")) {
      const textEncoder = join(golden.folder, "text_encoder");
      await cases.checkLatents("empty", model, { vae, textEncoder });
    }
    await cases.checkLatents("empty", gguf, { vae, textEncoder: encoder });
    const tokenizer = join(golden.folder, "tokenizer");
    await assert.rejects(
      openPipeline(model, { textEncoder: encoder, vae, tokenizer }),
      /the second tokenizer is missing; name it with parts\.tokenizer2/,
    );
  }));
