/** Stable Diffusion as its authors' programs store it: all of a model in one file, under the original names. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { originalKlLayout } from "../../models/autoencoders/kl/format.ts";
import { LDM_UNET } from "../../models/families/stable_diffusion/unet_layout.ts";
import { OPEN_CLIP } from "../../models/text_encoders/clip_formats.ts";
import { type Bytes, mapped, renamed, tensorsOf } from "./single_files.ts";

const VAE_LEVELS = 2;
const WRAPPER = /^text_model\./;

/** The tensors of a model's folder, in the order UNet, autoencoder, text encoders. */
export function originalFile(folder: string): Map<string, Bytes> {
  const second = join(folder, "text_encoder_2");
  const isXl = existsSync(second);
  const first = isXl ? "conditioner.embedders.0." : "cond_stage_model.";
  return new Map([
    ...below("model.diffusion_model.", originalUnet(folder)),
    ...below("first_stage_model.", originalVae(folder)),
    ...isSecond(folder)
      ? below("cond_stage_model.model.", openClip(join(folder, "text_encoder")))
      : below(`${first}transformer.text_model.`, textEncoder(join(folder, "text_encoder"))),
    ...isXl ? below("conditioner.embedders.1.model.", openClip(second)) : [],
  ]);
}

/** Whether it is of Stable Diffusion 2, which has OpenCLIP's tower. */
function isSecond(folder: string): boolean {
  const config = JSON.parse(Deno.readTextFileSync(join(folder, "text_encoder/config.json")));
  return config.hidden_act === "gelu";
}

/** The UNet without any prefix. */
export function originalUnet(folder: string): Map<string, Bytes> {
  return renamed(tensorsOf(join(folder, "unet")), LDM_UNET);
}

/** Attention as convolutions of 1 x 1. */
function originalVae(folder: string): Map<string, Bytes> {
  const vae = renamed(tensorsOf(join(folder, "vae")), originalKlLayout(VAE_LEVELS));
  return mapped(vae, (name, tensor) => {
    const { shape } = tensor;
    return [name, shape.length === 2 ? { ...tensor, shape: [...shape, 1, 1] } : tensor];
  });
}

function textEncoder(folder: string): Map<string, Bytes> {
  return mapped(tensorsOf(folder), (name, tensor) => [name.replace(WRAPPER, ""), tensor]);
}

/** Queries, keys and values in one, the projection as a matrix of columns. */
function openClip(folder: string): Map<string, Bytes> {
  return mapped(renamed(textEncoder(folder), OPEN_CLIP), (name, tensor) => {
    if (name !== "text_projection.weight") return [name, tensor];
    return ["text_projection", transposed(tensor)];
  });
}

function transposed({ format, shape, bytes }: Bytes): Bytes {
  const [rows, columns] = shape as [number, number];
  const from = new Uint16Array(bytes.buffer, bytes.byteOffset, rows * columns);
  const to = from.map((_, i) => from[i % rows * columns + Math.floor(i / rows)]!);
  return { format, shape: [columns, rows], bytes: new Uint8Array(to.buffer) };
}

function below(prefix: string, tensors: ReadonlyMap<string, Bytes>): [string, Bytes][] {
  return [...tensors].map(([name, tensor]) => [prefix + name, tensor]);
}
