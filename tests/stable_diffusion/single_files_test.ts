/** Stable Diffusion from single files of other programs: diffusers' images for the folder that holds the same numbers. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { quantizeCheckpoint, type QuantizedType } from "../../models/checkpoints/quantize/mod.ts";
import { SD_FILES } from "../../models/families/stable_diffusion/layouts.ts";
import { type ModelParts, openPipeline } from "../../models/mod.ts";
import { Checkpoint } from "../../runtime/mod.ts";
import { quantize } from "../../runtime/quantization/encode/mod.ts";
import { decodeFloats } from "../../runtime/dtype.ts";
import { encodeGguf, type GgufField, type GgufTensor } from "../support/gguf.ts";
import { Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";
import { withFolder } from "../support/safetensors.ts";
import { originalFile, originalUnet } from "../support/sd_files.ts";
import { type Bytes, writeSafetensors } from "../support/single_files.ts";

/** Classes by goldens, and file names, by which alone models of SD 2 say that they predict v. */
const GOLDENS = {
  single: ["StableDiffusionPipeline", "model"],
  v2_single: ["StableDiffusionPipeline", "v2-1_768-ema-pruned"],
  xl_single: ["StableDiffusionXLPipeline", "model"],
};

/** ggml's numbers of types. */
const [F32, F16, Q8_0, BF16] = [0, 1, 8, 30];
const Q8_0_ELEMENTS = 32;

/** Tensors that stable-diffusion.cpp leaves as they are: source `ModelLoader::tensor_should_be_converted`. */
const LEFT = /\.bias$|time_embed\.|label_emb\.|embedding/;

function hasSecond(folder: string): boolean {
  return existsSync(join(folder, "text_encoder_2"));
}

function architectureOf(folder: string): string {
  return hasSecond(folder) ? "sdxl" : "sd1";
}

function valuesOf({ bytes }: Bytes): Float32Array<ArrayBuffer> {
  return decodeFloats(bytes.slice(), "bf16");
}

/** As `sd-cli -M convert` stores a tensor: norms are quantised too, convolutions are not. */
function sdCppTensor(name: string, tensor: Bytes, type: "q8_0" | "f16"): GgufTensor {
  const { shape, bytes } = tensor;
  if (LEFT.test(name)) return { type: BF16, shape, data: bytes };
  const values = valuesOf(tensor);
  if (type === "f16") {
    return { type: F16, shape, data: new Uint8Array(Float16Array.from(values).buffer) };
  }
  const isWhole = shape.length > 0 && shape.at(-1)! % Q8_0_ELEMENTS === 0;
  if (!isWhole) return { type: BF16, shape, data: bytes };
  return { type: Q8_0, shape, data: quantize(values, "q8_0") };
}

/** As ComfyUI-GGUF stores a tensor: convolutions in rows of 256, beside their shapes; small tensors as f32. */
function comfyTensor(name: string, tensor: Bytes): { tensor: GgufTensor; field?: GgufField } {
  const { shape } = tensor;
  const values = valuesOf(tensor);
  const isSmall = shape.length < 2 || values.length <= 1024;
  if (isSmall) return { tensor: { type: F32, shape, data: new Uint8Array(values.buffer) } };
  const isRegrouped = values.length % 256 === 0 && shape.at(-1)! % 256 !== 0;
  const rows = isRegrouped ? [values.length / 256, 256] : shape;
  const isMatrix = rows.length === 2 && !LEFT.test(name);
  return {
    tensor: isMatrix
      ? { type: Q8_0, shape: rows, data: quantize(values, "q8_0") }
      : { type: F16, shape: rows, data: new Uint8Array(Float16Array.from(values).buffer) },
    ...isRegrouped && { field: { i32s: [...shape] } },
  };
}

/** A model's files by the programs that make them, and how close their images are to those of the whole numbers, in dB. */
interface Form {
  readonly name: string;
  readonly least: number;
  /** Writes the file, whose path begins with `base`, and tells what else the model needs. */
  write(
    golden: Golden,
    base: string,
  ): { model: string; parts?: ModelParts } | Promise<{ model: string; parts?: ModelParts }>;
}

function quantised(type: QuantizedType, ending: string, least: number): Form {
  return {
    name: `denoise quantize --type ${type} of the original file`,
    least,
    async write({ folder: source }, base) {
      const whole = `${base}-whole.safetensors`;
      const model = `${base}.${ending}`;
      writeSafetensors(whole, originalFile(source));
      await quantizeCheckpoint(whole, model, { type, formats: SD_FILES.formats });
      if (ending === "gguf") {
        using checkpoint = Checkpoint.open(model);
        assert.equal(checkpoint.metadata.get("general.architecture"), architectureOf(source));
      }
      return { model };
    },
  };
}

function sdCpp(type: "q8_0" | "f16", least: number): Form {
  return {
    name: `GGUF of stable-diffusion.cpp in ${type}, without any metadata`,
    least,
    write({ folder: source }, base) {
      const tensors = [...originalFile(source)].map(([name, tensor]) =>
        [name, sdCppTensor(name, tensor, type)] as const
      );
      const model = `${base}.gguf`;
      Deno.writeFileSync(model, encodeGguf({ tensors }));
      return { model };
    },
  };
}

const COPIES: readonly Form[] = [
  sdCpp("f16", 80),
  quantised("q8_0", "gguf", 40),
  quantised("f8_e4m3", "safetensors", 25),
];

const FORMS: readonly Form[] = [
  {
    name: "the original file",
    least: 90,
    write({ folder: source }, base) {
      const model = `${base}.safetensors`;
      writeSafetensors(model, originalFile(source));
      return { model };
    },
  },
  sdCpp("q8_0", 40),
  {
    name: "GGUF of ComfyUI-GGUF, the UNet alone",
    least: 40,
    write({ folder: source }, base) {
      const model = `${base}.gguf`;
      const all = [...originalUnet(source)].map(([name, tensor]) =>
        [name, comfyTensor(name, tensor)] as const
      );
      Deno.writeFileSync(
        model,
        encodeGguf({
          metadata: [
            ["general.architecture", { text: architectureOf(source) }],
            ...all.flatMap(([name, { field }]) =>
              field ? [[`comfy.gguf.orig_shape.${name}`, field] as const] : []
            ),
          ],
          tensors: all.map(([name, { tensor }]) => [name, tensor]),
        }),
      );
      const others = `${base}-others.safetensors`;
      writeSafetensors(others, originalFile(source));
      const second = hasSecond(source) ? { textEncoder2: others } : {};
      return { model, parts: { textEncoder: others, vae: others, ...second } };
    },
  },
  ...Deno.env.has("DENOISE_SLOW") ? COPIES : [],
];

for (const [name, [className, fileName]] of Object.entries(GOLDENS)) {
  const isSlow = name !== "single";
  Deno.test({
    name: `${className} gives the reference's images from single files, ${name}${
      isSlow ? "; with DENOISE_SLOW" : ""
    }`,
    ignore: isSlow && !Deno.env.has("DENOISE_SLOW"),
    async fn(t) {
      const golden = new Golden(`stable_diffusion/${name}`);
      const call = golden.call("text");
      const device = await openTestDevice();
      for (const { name, least, write } of FORMS) {
        await t.step(name, () =>
          withFolder({}, async (folder) => {
            const { model, parts } = await write(golden, join(folder, fileName!));
            // The golden's words are fewer than CLIP's.
            const tokenizers = { tokenizer: golden.folder };
            using pipeline = await openPipeline(model, { ...parts, ...tokenizers });
            assert.equal(pipeline.info.className, className);
            await pipeline.load(device);
            const { frames } = await pipeline.generate(textRequest(call));
            const decibels = psnr(frames[0]!, golden.tensor(call.name, "image").data);
            if (Deno.env.has("DENOISE_SHOW_ERRORS")) console.log(fileName, name, decibels);
            assert.ok(decibels > least, `${decibels}`);
          }));
      }
      device.destroy();
    },
  });
}
