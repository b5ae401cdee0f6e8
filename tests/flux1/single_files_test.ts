/** FLUX.1 from single files: the same images as from the folders that hold the same numbers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { ORIGINAL_FLUX1 } from "../../models/families/flux1/layouts.ts";
import { originalKlLayout } from "../../models/autoencoders/kl/format.ts";
import { type ModelParts, openPipeline } from "../../models/mod.ts";
import { encodeGguf, type GgufTensor } from "../support/gguf.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withFolder } from "../support/safetensors.ts";
import { prefixed, renamed, tensorsOf, writeSafetensors } from "../support/single_files.ts";

const DEV = new Golden("flux1/dev");
const SCHNELL = new Golden("flux1/schnell");
const CALL = SCHNELL.call("text");

async function checkLatents(model: string, parts: ModelParts): Promise<void> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(model, parts);
  try {
    assert.equal(pipeline.info.className, "FluxPipeline");
    const { defaults, maxSequenceLength } = pipeline.info;
    assert.deepEqual([defaults.numInferenceSteps, maxSequenceLength], [4, 256]);
    await pipeline.load(device);
    const { latents } = await pipeline.generate(textRequest(CALL));
    const expected = SCHNELL.tensor(CALL.name, "latents");
    assertClose("latents", { shape: expected.shape, data: latents }, expected, 1e-4);
  } finally {
    device.destroy();
  }
}

const TRANSFORMER = () => renamed(tensorsOf(join(SCHNELL.folder, "transformer")), ORIGINAL_FLUX1);

// The small CLIP of the golden is not as wide as those that are known by their files.
const CLIP = { textEncoder: join(DEV.folder, "text_encoder"), tokenizer: DEV.folder };

Deno.test("a file with FLUX.1's transformer, T5 and autoencoder as ComfyUI joins them, heads of 128, gives diffusers' latents", () =>
  withFolder({}, async (folder) => {
    const t5 = tensorsOf(join(DEV.folder, "text_encoder_2"));
    const all = new Map([
      ...prefixed("model.diffusion_model.", TRANSFORMER()),
      ...prefixed("text_encoders.t5xxl.transformer.", t5),
    ]);
    const vae = renamed(tensorsOf(join(DEV.folder, "vae")), originalKlLayout(2));
    for (const [name, tensor] of vae) {
      const isProjection = /mid\.attn_1\.(q|k|v|proj_out)\.weight$/.test(name);
      const shape = isProjection ? [...tensor.shape, 1, 1] : tensor.shape;
      all.set(`vae.${name}`, { ...tensor, shape });
    }
    const path = join(folder, "flux1-schnell-all.safetensors");
    writeSafetensors(path, all);
    await checkLatents(path, CLIP);
  }));

Deno.test({
  name:
    "a GGUF file of FLUX.1's transformer and one of T5 give diffusers' latents; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      const types: Readonly<Record<string, number>> = { F32: 0, F16: 1, BF16: 30 };
      const path = join(folder, "flux1-schnell-BF16.gguf");
      const tensors = [...TRANSFORMER()].map(([name, { format, shape, bytes }]) => {
        const tensor: GgufTensor = { type: types[format]!, shape, data: bytes };
        return [name, tensor] as const;
      });
      Deno.writeFileSync(path, encodeGguf({ tensors }));
      await checkLatents(path, {
        ...CLIP,
        textEncoder2: join(DEV.folder, "text_encoder_2"),
        vae: join(DEV.folder, "vae"),
      });
    }),
});

Deno.test("openPipeline() says what a file of FLUX.1 lacks, and refuses weights of bitsandbytes", () =>
  withFolder({}, async (folder) => {
    const before = Deno.env.get("HF_HUB_CACHE");
    Deno.env.set("HF_HUB_CACHE", folder);
    try {
      const transformer = TRANSFORMER();
      const path = join(folder, "flux1-schnell.safetensors");
      writeSafetensors(path, transformer);
      await assert.rejects(
        openPipeline(path, { vae: join(DEV.folder, "vae") }),
        /the text encoder, second text encoder, tokenizer and second tokenizer are missing; name each with parts.textEncoder, parts.textEncoder2, parts.tokenizer and parts.tokenizer2: a path or a hub id, such as black-forest-labs\/FLUX.1-schnell/,
      );
      const name = "double_blocks.0.img_attn.qkv.weight";
      const state = { format: "U8", shape: [4], bytes: new Uint8Array(4) };
      transformer.set(`${name}.quant_state.bitsandbytes__nf4`, state);
      const nf4 = join(folder, "flux1-dev-bnb-nf4.safetensors");
      writeSafetensors(nf4, transformer);
      await assert.rejects(openPipeline(nf4), {
        name: "SyntaxError",
        message:
          /nf4.safetensors": its weights are quantised by bitsandbytes \(nf4\), which is not supported; take the model in bf16, in fp8 or as GGUF/,
      });
    } finally {
      if (before === undefined) Deno.env.delete("HF_HUB_CACHE");
      else Deno.env.set("HF_HUB_CACHE", before);
    }
  }));
