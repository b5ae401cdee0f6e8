/** Whole pipelines of Kolors against diffusers, from folders and single files; what they refuse. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CHATGLM3_CONFIG, LLAMA_CPP_CHATGLM } from "../../models/text_encoders/chatglm3.ts";
import { parseConfig } from "../../models/config.ts";
import { loadTokenizer } from "../../models/tokenizers/mod.ts";
import { ImagePipelineCases, imageRequest } from "../support/image_pipeline.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";
import { originalUnet } from "../support/sd_files.ts";
import {
  prefixed,
  renamed,
  tensorsOf,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const cases = new ImagePipelineCases("stable_diffusion/kolors", (golden, call) => ({
  ...imageRequest(golden, call),
  ...(call.args["original_size"] !== undefined && {
    originalSize: call.args["original_size"] as number[],
    cropsCoordsTopLeft: call.args["crops_coords_top_left"] as number[],
  }),
}));
const { golden } = cases;

Deno.test("KolorsPipeline.generate() gives the reference's, guided and with a LoRA, and refuses what Stable Diffusion alone has", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    const { className, supportedTasks, maxSequenceLength, optionalSettings } = pipeline.info;
    assert.deepEqual([className, maxSequenceLength], ["KolorsPipeline", 256]);
    assert.deepEqual(supportedTasks, ["T2I", "TI2I"]);
    assert.ok(optionalSettings.includes("originalSize"));
    await cases.check(t, pipeline, ["guided"]);
    await cases.checkAdapted(t, pipeline);
    await cases.checkRefusals(pipeline, "guided", [
      [{ clipSkip: 1 }, /clipSkip/],
      [{ promptSyntax: "a1111" }, /promptSyntax/],
      [{ width: 41 }, /the width must be a multiple of 2/],
    ]);
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "KolorsPipeline.generate() gives the reference's without a negative prompt, cut, from an image and by a mask, within any budget; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  async fn(t) {
    await withPipeline(
      ({ pipeline }) => cases.check(t, pipeline, ["empty", "cut", "picture", "masked"]),
      { folder: golden.folder },
    );
    await cases.checkBudgets([0.6]);
  },
});

Deno.test({
  name:
    "UNets of Kolors under two names, and ChatGLM3 of transformers and llama.cpp, give diffusers' latents; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      const file = (name: string) => join(folder, name);
      const encoder = tensorsOf(`${golden.folder}/text_encoder`);
      writeSafetensors(file("kolors.safetensors"), tensorsOf(`${golden.folder}/unet`));
      writeSafetensors(file("chatglm3.safetensors"), prefixed("transformer.", encoder));
      writeSafetensors(file("vae.safetensors"), tensorsOf(`${golden.folder}/vae`));
      writeGguf(file("kolors.gguf"), originalUnet(golden.folder), "sdxl");
      writeGguf(file("chatglm3.gguf"), renamed(encoder, LLAMA_CPP_CHATGLM), "chatglm");
      const vae = file("vae.safetensors");
      for (const ending of ["safetensors", "gguf"]) {
        const textEncoder = file(`chatglm3.${ending}`);
        await cases.checkLatents("guided", file(`kolors.${ending}`), { textEncoder, vae });
      }
    }),
});

Deno.test("loadTokenizer() begins texts of ChatGLM3 with two tokens behind its vocabulary, and fills up with the unknown one", async () => {
  const tokenizer = await loadTokenizer(`${golden.folder}/tokenizer`);
  const [gmask, sop, ...text] = tokenizer.encode("a red cat 猫");
  assert.deepEqual([gmask, sop], [641, 643]);
  assert.equal(tokenizer.padId, 0);
  assert.equal(tokenizer.decode(text).trim(), "a red cat 猫");
  assert.deepEqual(tokenizer.encode(""), [641, 643]);
});

Deno.test("CHATGLM3_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(CHATGLM3_CONFIG, json, "config.json");
  assert.equal(parse({}).vocab_size, 65024);
  const refused: readonly [object, RegExp][] = [
    [{ multi_query_group_num: 3 }, /must divide num_attention_heads = 32/],
    [{ multi_query_attention: false }, /only the form of ChatGLM3/],
    [{ rope_ratio: 500 }, /scaled positions are not supported/],
  ];
  for (const [json, message] of refused) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
